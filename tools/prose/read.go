package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// read returns the running text below a directory: of comments and of Markdown.
func read(dir string) (comments, docs []paragraph, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name := d.Name(); path != dir && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
				return filepath.SkipDir
			}
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			found, err := readGo(path)
			comments = append(comments, found...)
			return err
		case strings.HasSuffix(path, ".md"):
			text, err := os.ReadFile(path) //nolint:gosec // a source tree that the caller owns
			docs = append(docs, markdown(path, string(text))...)
			return err
		}
		return nil
	})
	return comments, docs, err
}

func readGo(path string) (all []paragraph, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	for _, group := range file.Comments {
		all = append(all, paragraphs(path, files.Position(group.Pos()).Line, group.Text(), isCode)...)
	}
	return all, nil
}

// isCode reports whether a line of a comment is code, which gofmt indents with a tab, or a marker of a generator such as
// +kubebuilder:object:root=true.
func isCode(line string) bool {
	return strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "+ ")
}

// markdown returns the running text of a document, without code, tables and link targets.
func markdown(path, text string) []paragraph {
	fenced := false
	return paragraphs(path, 1, linkTarget.ReplaceAllString(text, "]"), func(line string) bool {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
			return true
		}
		return fenced || strings.HasPrefix(trimmed, "|") || strings.HasPrefix(line, "    ")
	})
}

var (
	linkTarget = regexp.MustCompile(`\]\([^)\s]*\)`)
	listItem   = regexp.MustCompile(`^\s*([-*+]|[0-9]+\.|#+)\s+`)
)

// paragraphs divides a text at empty lines, headings and list items, and leaves out the lines that are not running text.
func paragraphs(path string, first int, text string, leftOut func(line string) bool) (all []paragraph) {
	open := false
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" || leftOut(line) {
			open = false
			continue
		}
		if !open || listItem.MatchString(line) {
			all = append(all, paragraph{file: path, line: first + i})
		}
		p := &all[len(all)-1]
		p.text += line + "\n"
		open = !strings.HasPrefix(line, "#")
	}
	return all
}
