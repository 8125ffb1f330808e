package view

import (
	"slices"
	"strconv"
	"strings"
)

// A Variable is an environment variable from which a runtime takes its CPU count.
type Variable struct {
	Name string
	Why  string // behavior of the runtime without it
}

// Variables lists the variables of Env in its order. The value of each is the CPU count of the view: a limit of 1500m is a view of 2.
//
// A variable is in the list if it is a CPU count (UV_THREADPOOL_SIZE and WEB_CONCURRENCY are not), and if a widespread runtime
// without it finds another count than the view: if only the affinity is set, or by a quota that it rounds down. Omitted since not
// needed: DOTNET_PROCESSOR_COUNT and NUMBA_NUM_THREADS (both follow the affinity), OPENBLAS_NUM_THREADS and MKL_NUM_THREADS (both
// follow OMP_NUM_THREADS). Omitted since harmful: JAVA_TOOL_OPTIONS (every JVM that finds it writes a line to standard error, and
// follows affinity and quota by itself).
var Variables = []Variable{
	// Go follows the affinity, but the automaxprocs library rounds a quota down.
	{"GOMAXPROCS", "automaxprocs rounds the quota down"},
	// OpenMP runtimes follow the affinity; other programs that read the variable (pyarrow, numexpr, R) use sysconf or /proc/cpuinfo.
	{"OMP_NUM_THREADS", "libraries that follow OpenMP's setting ask files that an affinity does not change"},
	// os.cpu_count is sysconf's number; from Python 3.13 on this overrides it.
	{"PYTHON_CPU_COUNT", "os.cpu_count does not follow the affinity"},
	// Rust's available_parallelism, on which Rayon and Tokio build, rounds a quota down.
	{"RAYON_NUM_THREADS", "Rust rounds the quota down"},
	{"TOKIO_WORKER_THREADS", "Rust rounds the quota down"},
}

// Env returns environ with the Variables added, each with the value cpus. A variable that the user has set keeps its value, even if it
// is empty. environ itself does not change.
func Env(environ []string, cpus int) []string {
	environ = slices.Clip(environ)
	for _, v := range Variables {
		matches := func(entry string) bool { return strings.HasPrefix(entry, v.Name+"=") }
		if !slices.ContainsFunc(environ, matches) {
			environ = append(environ, v.Name+"="+strconv.Itoa(cpus))
		}
	}
	return environ
}
