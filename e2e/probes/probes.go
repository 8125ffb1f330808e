// Package probes builds and runs small real programs that print the CPU count that they detect: a row each of the matrix in
// docs/view.md.
package probes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Probe is a program that prints the CPU count that it detects.
type Probe struct {
	Row   string   // its name in the matrix
	Build []string // build command, in the directory of the sources; nil: no build
	Run   []string // command, in the directory of the build
}

// out is the placeholder for the directory of the build.
const out = "OUT"

// All returns the probes in the order of the matrix. Compiled probes are linked statically, so that they run on a machine
// without libraries.
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

// processCPUCount runs a Python with os.process_cpu_count or, without it, computes the function's definition: the length of
// sched_getaffinity's result.
func processCPUCount() []string {
	if python := NewPython(); python != "" {
		return []string{python, "-c", "import os; print(os.process_cpu_count())"}
	}
	return words("python3 -c import\tos;print(len(os.sched_getaffinity(0)))")
}

// NewPython finds a Python of version 3.13 or later, installed or from pyenv; "" if there is none.
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
		needs = append(needs, p.Run[len(p.Run)-1]) // the program that the script starts
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

// Make builds the probe from the sources in a directory into another, absolute directory.
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
