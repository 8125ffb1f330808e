package view_test

import (
	"fmt"
	"os"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/view"
)

// Write creates the files of a view. The runtime of the container bind-mounts them over the kernel's files.
func Example() {
	const dir = "/run/example/web" // only its owner can write to /run/example
	if err := view.Write(dir, cpuset.Of(2, 3)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for _, bind := range view.Binds(dir) {
		fmt.Println("mount --bind", bind.Source, bind.Target)
	}

	// After a resize, the same files show the new CPUs. Programs in the container see them at once.
	if err := view.Write(dir, cpuset.Range(2, 5)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// Binds returns the mounts that show a view.
func ExampleBinds() {
	for _, bind := range view.Binds("/run/candor/views/web") {
		fmt.Println(bind.Source, "over", bind.Target)
	}
	// Output:
	// /run/candor/views/web/online over /sys/devices/system/cpu/online
	// /run/candor/views/web/cpuinfo over /proc/cpuinfo
}

// Env adds the variables of runtimes that count CPUs in another way. The values of the user remain.
func ExampleEnv() {
	for _, variable := range view.Env([]string{"OMP_NUM_THREADS=8"}, 2) {
		fmt.Println(variable)
	}
	// Output:
	// OMP_NUM_THREADS=8
	// GOMAXPROCS=2
	// PYTHON_CPU_COUNT=2
	// RAYON_NUM_THREADS=2
	// TOKIO_WORKER_THREADS=2
}

// ReadSources reads all sources of the CPU count in the environment of the calling process.
func ExampleReadSources() {
	report := view.ReadSources()
	for _, source := range report.Sources {
		fmt.Println(source.Name, source.Count)
	}
	fmt.Println("the view equals the limit:", report.IsTrue)
}
