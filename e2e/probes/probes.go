// Package probes builds and runs small real programs that say how many CPUs they
// are told of: a row each of the matrix in docs/view.md.
package probes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Probe is a program that prints one number: how many CPUs it is told of.
type Probe struct {
	Row   string   // its name in the matrix
	Build []string // builds it, run in the directory of the sources; nil: nothing to build
	Run   []string // run in the directory of what was built
}

// out stands for the directory of what is built.
const out = "OUT"

// All returns the probes in the matrix's order. What is compiled is linked
// statically, so that it also runs where nothing is installed.
func All() []Probe {
	return []Probe{
		{"`nproc`", nil, words("nproc")},
		{"`grep -c ^processor /proc/cpuinfo`", nil, words("grep -c ^processor /proc/cpuinfo")},
		{"C `sysconf(_SC_NPROCESSORS_ONLN)`", words("gcc -static -o OUT/sysconf sysconf.c"), words("./sysconf onln")},
		{"C `sysconf(_SC_NPROCESSORS_CONF)`", words("gcc -static -o OUT/sysconf sysconf.c"), words("./sysconf conf")},
		{"OpenMP (libgomp) `omp_get_max_threads`", words("gcc -static -fopenmp -o OUT/openmp openmp.c"), words("./openmp")},
		{"C++ `hardware_concurrency`", words("g++ -static -o OUT/concurrency concurrency.cpp"), words("./concurrency")},
		{"Go `GOMAXPROCS`, go.mod with 1.24", words("go build -C go124 -o OUT/go124 ."), words("./go124")},
		{"Go `GOMAXPROCS`, go.mod with 1.25", words("go build -C go125 -o OUT/go125 ."), words("./go125")},
		{"JVM 17 `availableProcessors`", words("javac -d OUT CPUs.java"), words("java -cp . CPUs")},
		{"Python `os.cpu_count`", nil, words("python3 -c import\tos;print(os.cpu_count())")},
		{"Python `os.process_cpu_count`", nil, processCPUCount()},
		{"Node `os.cpus().length`", nil, words("node -p os.cpus().length")},
		{"Node `os.availableParallelism`", nil, words("node -p os.availableParallelism()")},
		{"Rust `available_parallelism`", words("rustc -C target-feature=+crt-static -o OUT/parallelism parallelism.rs"), words("./parallelism")},
		{"nginx `worker_processes auto`", words("cp nginx.sh OUT"), words("sh nginx.sh nginx")},
		{"Ruby `Etc.nprocessors`", nil, words("ruby -r etc -e p(Etc.nprocessors)")},
	}
}

// words cuts a command at its spaces.
func words(command string) []string { return strings.Split(command, " ") }

// processCPUCount asks a Python that has the function or, where there is none, takes
// what it is defined by: the length of sched_getaffinity's answer.
func processCPUCount() []string {
	if python := NewPython(); python != "" {
		return []string{python, "-c", "import os; print(os.process_cpu_count())"}
	}
	return words("python3 -c import\tos;print(len(os.sched_getaffinity(0)))")
}

// NewPython finds a Python of version 3.13 or later, installed or one of pyenv's;
// "" if there is none.
func NewPython() string {
	candidates := []string{"python3", "python3.14", "python3.13"}
	if home, err := os.UserHomeDir(); err == nil {
		more, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/3.*/bin/python3"))
		slices.Reverse(more)
		candidates = append(candidates, more...)
	}
	for _, python := range candidates {
		if exec.Command(python, "-c", "import os; os.process_cpu_count").Run() == nil {
			return python
		}
	}
	return ""
}

// Missing returns the first program that the probe needs and that is not here,
// "" if none: the compiler where the probe is still to be built, or the runtime.
func (p Probe) Missing(dir string, build bool) string {
	needs := []string{p.Run[0]}
	if p.Run[0] == "sh" {
		needs = append(needs, p.Run[len(p.Run)-1]) // what the script starts
	}
	if build && p.Build != nil {
		needs = append(needs, p.Build[0])
	}
	for _, name := range needs {
		if strings.HasPrefix(name, "./") {
			if build {
				continue
			}
			name = filepath.Join(dir, name)
		}
		if _, err := exec.LookPath(name); err != nil {
			return name
		}
	}
	return ""
}

// Make builds the probe from the sources in one directory into another, absolute, one.
func (p Probe) Make(sources, dir string) error {
	if p.Build == nil {
		return nil
	}
	args := slices.Clone(p.Build)
	for i := range args {
		args[i] = strings.Replace(args[i], out, dir, 1)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = sources
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}
