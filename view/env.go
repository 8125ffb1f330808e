package view

import (
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/cgroup"
)

// A Variable is an environment variable from which a runtime takes its CPU count.
type Variable struct {
	Name string
	Why  string // behavior of the runtime without the variable
}

// Variables lists the variables that Env adds. Env gives each variable the CPU count of the view as its value. For example, a limit of
// 1500m has a view of 2 CPUs.
//
// A variable is in the list if its value is a CPU count, and if a widespread runtime finds a wrong count without the variable. The count is
// wrong if the runtime ignores the affinity or rounds a quota down. (The values of UV_THREADPOOL_SIZE and WEB_CONCURRENCY are not CPU
// counts.)
//
// Unnecessary variables are not in the list: the runtimes of DOTNET_PROCESSOR_COUNT and NUMBA_NUM_THREADS use the affinity, and the
// libraries of OPENBLAS_NUM_THREADS and MKL_NUM_THREADS use OMP_NUM_THREADS. JAVA_TOOL_OPTIONS would be harmful, because it makes every JVM
// write a line to standard error; JVMs use the affinity and the quota without it.
var Variables = []Variable{
	// Go uses the affinity, but the library automaxprocs rounds a quota down.
	{"GOMAXPROCS", "automaxprocs rounds the quota down"},
	// OpenMP runtimes use the affinity. But other programs that read the variable (pyarrow, numexpr, R) otherwise use sysconf or
	// /proc/cpuinfo.
	{"OMP_NUM_THREADS", "libraries that follow OpenMP's setting ask files that an affinity does not change"},
	// os.cpu_count returns sysconf's number. From Python 3.13 on, the variable overrides this number.
	{"PYTHON_CPU_COUNT", "os.cpu_count does not follow the affinity"},
	// Rust's available_parallelism, on which Rayon and Tokio build, rounds a quota down.
	{"RAYON_NUM_THREADS", "Rust rounds the quota down"},
	{"TOKIO_WORKER_THREADS", "Rust rounds the quota down"},
}

// Env returns environ with the Variables added, each with the value cpus. A variable that environ contains keeps its value, even an empty
// value. environ itself does not change.
func Env(environ []string, cpus int) []string {
	environ = slices.Clip(environ)
	for _, v := range Variables {
		if !hasVariable(environ, v.Name) {
			environ = append(environ, v.Name+"="+strconv.Itoa(cpus))
		}
	}
	return environ
}

// NodeOptions is the variable from which Node takes options of V8. MemoryEnv adds it only by name, because programs use it for
// other options too, and because Node itself finds the limit of a cgroup.
const NodeOptions = "NODE_OPTIONS"

// MemoryEnv returns environ with GOMEMLIMIT added: 90 % of limit, a memory limit in bytes. Go's garbage collector keeps the
// memory of a program near GOMEMLIMIT, and the rest of the container needs some memory too. If named contains NodeOptions,
// MemoryEnv also sets the maximum of Node's heap to 75 % of limit. A variable that environ contains keeps its value. For a limit
// of cgroup.NoMemoryLimit, MemoryEnv returns environ unchanged. environ itself does not change.
//
// MemoryEnv is opt-in: a container with programs in several languages can need another share for Go.
func MemoryEnv(environ []string, limit int64, named ...string) []string {
	environ = slices.Clip(environ)
	if limit == cgroup.NoMemoryLimit || limit <= 0 {
		return environ
	}
	add := func(name, prefix string, value int64) {
		if !hasVariable(environ, name) {
			environ = append(environ, name+"="+prefix+strconv.FormatInt(value, 10))
		}
	}
	add("GOMEMLIMIT", "", limit/10*9)
	if slices.Contains(named, NodeOptions) {
		add(NodeOptions, "--max-old-space-size=", max(limit>>20*3/4, 1))
	}
	return environ
}

func hasVariable(environ []string, name string) bool {
	return slices.ContainsFunc(environ, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
}
