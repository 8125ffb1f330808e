package view

import (
	"slices"
	"testing"
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
