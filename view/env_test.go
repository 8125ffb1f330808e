package view

import (
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/cgroup"
)

func TestEnv(t *testing.T) {
	tests := []struct {
		name          string
		environ, want []string
	}{
		{"empty", nil, []string{"GOMAXPROCS=2", "OMP_NUM_THREADS=2", "PYTHON_CPU_COUNT=2", "RAYON_NUM_THREADS=2", "TOKIO_WORKER_THREADS=2"}},
		{"values of the user remain", []string{"GOMAXPROCS=7", "A=b", "OMP_NUM_THREADS="},
			[]string{"GOMAXPROCS=7", "A=b", "OMP_NUM_THREADS=", "PYTHON_CPU_COUNT=2", "RAYON_NUM_THREADS=2", "TOKIO_WORKER_THREADS=2"}},
		{"names with an equal prefix", []string{"GOMAXPROCS_X=7", "PYTHON_CPU_COUNT", "RAYON_NUM_THREADS=1", "TOKIO_WORKER_THREADS=1"},
			[]string{"GOMAXPROCS_X=7", "PYTHON_CPU_COUNT", "RAYON_NUM_THREADS=1", "TOKIO_WORKER_THREADS=1", "GOMAXPROCS=2", "OMP_NUM_THREADS=2", "PYTHON_CPU_COUNT=2"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			environ := append(make([]string, 0, 20), test.environ...)
			before := slices.Clone(environ)
			if got := Env(environ, 2); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if spare := environ[len(environ):cap(environ)]; !slices.Equal(environ, before) || spare[0] != "" {
				t.Errorf("the caller's slice changed: %q", environ[:len(environ)+1])
			}
		})
	}
}

func TestEnvMemory(t *testing.T) {
	for _, test := range []struct {
		environ []string
		limit   int64
		want    []string
	}{
		{nil, 512 * mib, []string{"GOMEMLIMIT=483183819"}},
		{[]string{"A=b", "GOMEMLIMIT_X=1", "GOMEMLIMIT"}, 1000, []string{"A=b", "GOMEMLIMIT_X=1", "GOMEMLIMIT", "GOMEMLIMIT=900"}},
		{[]string{"GOMEMLIMIT=off"}, 512 * mib, []string{"GOMEMLIMIT=off"}},
		{[]string{"GOMEMLIMIT="}, 512 * mib, []string{"GOMEMLIMIT="}},
		{[]string{"A=b"}, cgroup.NoMemoryLimit, []string{"A=b"}},
		{[]string{"A=b"}, 0, []string{"A=b"}},
		{nil, 1 << 62, []string{"GOMEMLIMIT=4150517416584649110"}},
	} {
		environ := append(make([]string, 0, 20), test.environ...)
		if got := MemoryEnv(environ, test.limit); !slices.Equal(got, test.want) {
			t.Errorf("%q, limit %d: %q, want %q", test.environ, test.limit, got, test.want)
		}
		if test.limit == 512*mib {
			named := append(slices.Clone(test.want), "NODE_OPTIONS=--max-old-space-size=384")
			if got := MemoryEnv(environ, test.limit, NodeOptions); !slices.Equal(got, named) {
				t.Errorf("%q by name: %q, want %q", test.environ, got, named)
			}
		}
		if spare := environ[len(environ):cap(environ)]; spare[0] != "" {
			t.Errorf("the caller's slice changed: %q", spare[0])
		}
	}
}

// TestEnvMemoryGo: Go accepts the value.
func TestEnvMemoryGo(t *testing.T) {
	if os.Getenv(memoryEnvChild) != "" {
		fmt.Println(debug.SetMemoryLimit(-1))
		os.Exit(0)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestEnvMemoryGo$")
	cmd.Env = MemoryEnv([]string{memoryEnvChild + "=1"}, 512*mib)
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "483183819" {
		t.Errorf("%q, %v", out, err)
	}
}

const memoryEnvChild = "CANDOR_VIEW_MEMORY_ENV"
