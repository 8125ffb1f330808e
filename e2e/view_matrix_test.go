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

// explained has the runtimes that a view cannot correct: the number that they find instead, and the reason.
// docs/view.md explains them.
var explained = map[string]struct {
	number func(sizes) int
	why    string
}{
	"C `sysconf(_SC_NPROCESSORS_CONF)`": {sizes.machine, "counts the possible CPUs, which stay true"},
	"Node `os.cpus().length`":           {sizes.machine, "counts the lines of /proc/stat, which stays true"},
	"Rust `available_parallelism`":      {sizes.floor, "rounds the quota down"},
}

// TestViewMatrix runs each installed runtime in each setup, and compares its number of CPUs with docs/view.md.
//
//	CANDOR_MATRIX_LIMIT=1500m   the limit; default: 1.5 CPUs, on fewer than 4 CPUs 0.5
//	CANDOR_PROBES=DIR           probes that are built already (guests have no compilers)
func TestViewMatrix(t *testing.T) {
	l := newLab(t)
	sizes := sizesHere(t)
	dir, built := os.Getenv("CANDOR_PROBES"), true
	if dir == "" {
		dir, built = t.TempDir(), false
	}
	columns := l.setups(sizes.limit)
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
				row[i] = column.runProbe(t, dir, p.Run)
			}
			measured[p.Row] = row
			t.Logf("host %d, limit %v: %v", sizes.host, sizes.limit, row)
			checkCandor(t, p.Row, row[len(row)-1], sizes)
		})
	}
	if probes.NewPython() == "" {
		t.Log("no Python here has os.process_cpu_count: its row asked for the length of sched_getaffinity, which that is")
	}
	checkDoc(t, filepath.Join("..", "docs", "view.md"), measured, sizes)
}

// checkCandor fails the test unless the program's number of CPUs under Candor equals the view or, in an
// explained row, the explained number.
func checkCandor(t *testing.T, row string, n int, s sizes) {
	if e, ok := explained[row]; ok {
		if want := e.number(s); n != want {
			t.Errorf("with candor: got %d CPUs, want %d, since it %s", n, want, e.why)
		}
	} else if n != s.view() {
		t.Errorf("with candor: got %d CPUs, the view has %d", n, s.view())
	}
}

// sizes are the sizes of the machine on which the numbers of a matrix depend.
type sizes struct {
	host  int          // CPUs of the machine
	limit hybrid.Milli // the limit of the setups that have one
}

func (s sizes) machine() int { return s.host }
func (s sizes) view() int    { return s.limit.CPUs() }            // equal to the limit
func (s sizes) floor() int   { return max(1, int(s.limit/1000)) } // the limit rounded down

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
		t.Skipf("a limit of %v on a machine of %d CPUs has no result", s.limit, s.host)
	}
	return s
}
