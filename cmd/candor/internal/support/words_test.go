package support

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/golden"
)

// sources are the directories with the texts of the doctor, of the log of candor nri and of their errors.
var sources = []string{"cmd/candor/internal/doctor", "engine/nri", "host", "cgroup", "cpuset", "topology", "quota", "metrics", "hybrid", "spec", "burst",
	"view", "kube/publish", "kube/apiserver", "internal", "cmd/candor"}

// literals returns the words in the string literals of candor's sources.
func literals(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	for _, dir := range sources {
		err := filepath.WalkDir(filepath.Join("../../../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				ast.Inspect(file, func(n ast.Node) bool {
					if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
						addWords(found, l.Value)
					}
					return true
				})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Examples of names, such as node-1, are not in the vocabulary.
var (
	usual    = regexp.MustCompile(`^[a-z][a-z0-9._-]*$`)
	numbered = regexp.MustCompile(`-[0-9]+$`)
)

// addWords adds the words of a literal that a sentence of candor can have.
func addWords(found map[string]bool, literal string) {
	text, err := strconv.Unquote(literal)
	if err != nil {
		return
	}
	for _, w := range word().FindAllString(text, -1) {
		if w = strings.ToLower(strings.Trim(w, punctuation+"-_")); usual.MatchString(w) && !numbered.MatchString(w) {
			found[w] = true
		}
	}
}

// TestWords: words.txt has the words of candor's texts. A few new words can be missing: then an anonymized archive has names instead.
func TestWords(t *testing.T) {
	found := literals(t)
	if *golden.Update {
		golden.Check(t, "words.txt", strings.Join(found, "\n")+"\n")
	}
	var missing []string
	for _, w := range found {
		if !vocabulary()[w] {
			missing = append(missing, w)
		}
	}
	if len(missing) > len(found)/20 {
		t.Errorf("words.txt lacks %d of %d words (go test -update adds them), such as %q", len(missing), len(found), missing[:20])
	}
}
