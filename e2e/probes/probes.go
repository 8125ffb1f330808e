// Package probes builds small programs that print the CPU count that their runtime detects. Each program has a row in the table of
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
	Row   string   // name of the probe's row in the table
	Build []string // build command, with the sources as working directory; nil: the probe needs no build
	Run   []string // command that runs the probe, with the build directory as working directory
}

// buildDir is the placeholder for the build directory in Probe.Build.
const buildDir = "OUT"

// All returns the probes in the order of the table. Compiled probes are linked statically, so that they run on a machine
// without libraries.
func All() []Probe {
	return []Probe{
		{"`nproc`", nil, splitWords("nproc")},
		{"`grep -c ^processor /proc/cpuinfo`", nil, splitWords("grep -c ^processor /proc/cpuinfo")},
		{"C `sysconf(_SC_NPROCESSORS_ONLN)`", splitWords("gcc -static -o OUT/sysconf sysconf.c"), splitWords("./sysconf onln")},
		{"C `sysconf(_SC_NPROCESSORS_CONF)`", splitWords("gcc -static -o OUT/sysconf sysconf.c"), splitWords("./sysconf conf")},
		{"OpenMP (libgomp) `omp_get_max_threads`", splitWords("gcc -static -fopenmp -o OUT/openmp openmp.c"), splitWords("./openmp")},
		{"C++ `hardware_concurrency`", splitWords("g++ -static -o OUT/concurrency concurrency.cpp"), splitWords("./concurrency")},
		{"Go `GOMAXPROCS`, go.mod with 1.24", splitWords("go build -C go124 -o OUT/go124 ."), splitWords("./go124")},
		{"Go `GOMAXPROCS`, go.mod with 1.25", splitWords("go build -C go125 -o OUT/go125 ."), splitWords("./go125")},
		{"JVM 17 `availableProcessors`", splitWords("javac -d OUT CPUs.java"), splitWords("java -cp . CPUs")},
		{"Python `os.cpu_count`", nil, splitWords("python3 -c import\tos;print(os.cpu_count())")},
		{"Python `os.process_cpu_count`", nil, processCPUCount()},
		{"Node `os.cpus().length`", nil, splitWords("node -p os.cpus().length")},
		{"Node `os.availableParallelism`", nil, splitWords("node -p os.availableParallelism()")},
		{"Rust `available_parallelism`", splitWords("rustc -C target-feature=+crt-static -o OUT/parallelism parallelism.rs"), splitWords("./parallelism")},
		{"nginx `worker_processes auto`", splitWords("cp nginx.sh OUT"), splitWords("sh nginx.sh nginx")},
		{"Ruby `Etc.nprocessors`", nil, splitWords("ruby -r etc -e p(Etc.nprocessors)")},
	}
}

// splitWords divides a command at its spaces.
func splitWords(command string) []string { return strings.Split(command, " ") }

// processCPUCount returns a command that prints Python's os.process_cpu_count. Without a Python that has this function, the
// command prints the number of CPUs in the affinity, which is the definition of the function.
func processCPUCount() []string {
	if python := NewPython(); python != "" {
		return []string{python, "-c", "import os; print(os.process_cpu_count())"}
	}
	return splitWords("python3 -c import\tos;print(len(os.sched_getaffinity(0)))")
}

// NewPython returns the path of a Python of version 3.13 or later, which is installed or from pyenv; "" if there is none.
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

// Missing returns the first program that the probe needs and this machine lacks, or "" if nothing is missing. The result is a
// runtime, the program that a script starts, or, if build is true, a compiler. If build is false, the result can also be the
// probe itself, which must be in dir.
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

// Make builds the probe from the directory sources into the build directory dir, which must be an absolute path.
func (p Probe) Make(sources, dir string) error {
	if p.Build == nil {
		return nil
	}
	args := slices.Clone(p.Build)
	for i := range args {
		args[i] = strings.Replace(args[i], buildDir, dir, 1)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = sources
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}
