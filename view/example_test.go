package view_test

import (
	"context"
	"fmt"
	"os"

	"github.com/candor-project/candor/cgroup"
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
	fmt.Println("the CPU counts match the limit:", report.IsTrue)
}

// MemoryBinds returns the mounts that show a memory view.
func ExampleMemoryBinds() {
	for _, bind := range view.MemoryBinds("/run/candor/views/web") {
		fmt.Println(bind.Source, "over", bind.Target)
	}
	// Output:
	// /run/candor/views/web/meminfo over /proc/meminfo
	// /run/candor/views/web/swaps over /proc/swaps
}

// MemoryEnv adds the variable of Go's runtime for a limit of 512 MiB. The values of the user remain.
func ExampleMemoryEnv() {
	const limit = 512 << 20
	fmt.Println(view.MemoryEnv([]string{"A=b"}, limit))
	fmt.Println(view.MemoryEnv([]string{"GOMEMLIMIT=100MiB"}, limit))
	// Output:
	// [A=b GOMEMLIMIT=483183819]
	// [GOMEMLIMIT=100MiB]
}

// A Refresher rewrites the memory view of a container while programs read it.
func ExampleRefresher() {
	tree, err := cgroup.Open(cgroup.Options{ReadOnly: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer tree.Close()
	tree.KeepMemoryOpen(1000)
	machine, err := view.ReadMachineMemory()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	files, err := view.OpenMemory("/run/example/web") // only its owner can write to /run/example
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer files.Close()
	refresh := func(bool) error {
		memory, err := tree.ReadMemory("/engine/web")
		if err != nil {
			return err
		}
		return files.Write(memory, machine)
	}
	if err := refresh(true); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	r, err := view.NewRefresher(view.RefreshOptions{OnError: func(name string, err error) { fmt.Fprintln(os.Stderr, name, err) }})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer r.Close()
	if err := r.Add("web", files.Files(), refresh); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	if err := r.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
