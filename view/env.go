package view

import (
	"slices"
	"strconv"
	"strings"
)

// A Variable is an environment variable that tells one runtime its number of CPUs.
type Variable struct {
	Name string
	Why  string // what the runtime does without it
}

// Variables lists what Env sets, in its order. Each holds the number of CPUs of the
// view: a limit of 1500m is a view of 2.
//
// A variable is in the list if it means a number of CPUs (UV_THREADPOOL_SIZE and
// WEB_CONCURRENCY do not), and if without it a widespread runtime is told another number than
// the view's: where only the affinity is set, or by a quota that it rounds down.
// Left out as needless: DOTNET_PROCESSOR_COUNT and NUMBA_NUM_THREADS (both follow the
// affinity), OPENBLAS_NUM_THREADS and MKL_NUM_THREADS (both follow
// OMP_NUM_THREADS). Left out as harmful: JAVA_TOOL_OPTIONS (every JVM that finds it
// writes a line to standard error, and it follows affinity and quota by itself).
var Variables = []Variable{
	// Go follows the affinity, but the automaxprocs library rounds a quota down.
	{"GOMAXPROCS", "automaxprocs rounds the quota down"},
	// OpenMP runtimes follow the affinity; what else honours the variable (pyarrow,
	// numexpr, R) asks sysconf or /proc/cpuinfo.
	{"OMP_NUM_THREADS", "libraries that follow OpenMP's setting ask files that an affinity does not change"},
	// os.cpu_count is sysconf's number; from Python 3.13 on this overrides it.
	{"PYTHON_CPU_COUNT", "os.cpu_count does not follow the affinity"},
	// Rust's available_parallelism, on which Rayon and Tokio build, rounds a quota down.
	{"RAYON_NUM_THREADS", "Rust rounds the quota down"},
	{"TOKIO_WORKER_THREADS", "Rust rounds the quota down"},
}

// Env returns environ with the Variables added, each with the value cpus. A variable that
// the user set keeps its value, be it empty. environ itself is left as it is.
func Env(environ []string, cpus int) []string {
	environ = slices.Clip(environ)
	for _, v := range Variables {
		isIt := func(entry string) bool { return strings.HasPrefix(entry, v.Name+"=") }
		if !slices.ContainsFunc(environ, isIt) {
			environ = append(environ, v.Name+"="+strconv.Itoa(cpus))
		}
	}
	return environ
}
