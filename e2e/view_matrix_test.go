// Package e2e tests Candor with real programs on a real kernel.
package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/candor-project/candor/e2e/probes"
	"github.com/candor-project/candor/hybrid"
)

var update = flag.Bool("update", false, "write what was measured into docs/view.md")

// explained are the rows that a view cannot make right, and why.
var explained = map[string]string{
	"C `sysconf(_SC_NPROCESSORS_CONF)`": "counts the directories or the possible CPUs of sysfs, which stay true",
	"Node `os.cpus().length`":           "counts the lines of /proc/stat, which stays true",
}

// TestViewMatrix asks every runtime that is here how many CPUs it has, in every setup.
//
//	CANDOR_MATRIX_LIMIT=1500m   the limit; default: 1.5 CPUs, on fewer than 4 CPUs 0.5
//	CANDOR_PROBES=DIR           probes that are built already (guests have no compilers)
func TestViewMatrix(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for groups and mounts")
	}
	sizes := sizesHere(t)
	dir, built := os.Getenv("CANDOR_PROBES"), true
	if dir == "" {
		dir, built = t.TempDir(), false
	}
	columns := setups(t, sizes.limit)
	measured := make(map[string][]int)
	for _, p := range probes.All() {
		t.Run(p.Row, func(t *testing.T) {
			if missing := p.Missing(dir, !built); missing != "" {
				t.Skip(missing + " is not here")
			}
			if !built {
				if err := p.Make("probes/testdata", dir); err != nil {
					t.Fatal(err)
				}
			}
			row := make([]int, len(columns))
			for i, column := range columns {
				n, err := ask(t, column, dir, p.Run)
				if err != nil {
					t.Fatalf("%s: %v", column.name, err)
				}
				row[i] = n
			}
			measured[p.Row] = row
			t.Logf("host %d, limit %v: %v", sizes.host, sizes.limit, row)
			checkCandor(t, p.Row, row[len(row)-1], sizes)
		})
	}
	if probes.PythonIsOld() {
		t.Log("no Python here has os.process_cpu_count: its row asked for the length of sched_getaffinity, which that is")
	}
	checkDoc(t, filepath.Join("..", "docs", "view.md"), measured, sizes)
}

// checkCandor wants what the program is told under Candor to be the view, except in an explained row.
func checkCandor(t *testing.T, row string, n int, s sizes) {
	reason := explained[row]
	switch {
	case reason == "" && n != s.view():
		t.Errorf("with candor: told %d CPUs, the view has %d", n, s.view())
	case reason != "" && n == s.view() && s.view() != s.host:
		t.Errorf("with candor: told the view's %d CPUs: no longer to be explained by %q", n, reason)
	}
}

// sizes are what the numbers of a matrix depend on.
type sizes struct {
	host  int          // CPUs of the machine
	limit hybrid.Milli // the limit of the setups that have one
}

// view is the number of CPUs that equals the limit, floor the number below that some runtimes take.
func (s sizes) view() int  { return s.limit.CPUs() }
func (s sizes) floor() int { return max(1, int(s.limit/1000)) }

// sizesHere returns the sizes of this machine.
func sizesHere(t *testing.T) sizes {
	s := sizes{runtime.NumCPU(), 1500}
	if s.host < 4 {
		s.limit = 500
	}
	if text := os.Getenv("CANDOR_MATRIX_LIMIT"); text != "" {
		limit, err := hybrid.ParseMilli(text)
		if err != nil {
			t.Fatal(err)
		}
		s.limit = limit
	}
	if s.view() >= s.host {
		t.Skipf("a limit of %v on a machine of %d CPUs says nothing", s.limit, s.host)
	}
	return s
}
