package cgroup_test

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// Create makes a group with its settings before a process enters it. The example needs root.
func Example() {
	tree, err := cgroup.Open(cgroup.Options{Parent: "/example", Driver: cgroup.Cgroupfs})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer tree.Close()
	group := tree.Group("web")
	settings := cgroup.Settings{CPUs: cpuset.Of(0), Quota: 50 * time.Millisecond}
	if err := group.Create(settings, os.Getpid()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	stat, err := group.Stat()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Println(stat.CPU, "used, throttled in", stat.Throttled, "of", stat.Periods, "periods")
}

// Apply changes a running group. It writes only the values that differ.
func ExampleGroup_Apply() {
	tree, err := cgroup.Open(cgroup.Options{Parent: "/example", Driver: cgroup.Cgroupfs})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer tree.Close()
	group := tree.Group("web")
	settings, err := group.Settings()
	if errors.Is(err, cgroup.ErrNoGroup) {
		fmt.Println("the container has ended")
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	settings.Quota *= 2
	if err := group.Apply(settings); err != nil {
		fmt.Fprintln(os.Stderr, err) // names the file, the value and the kernel's reason
	}
}

// EnginePath returns the group of a container from the cgroupsPath of its OCI configuration.
func ExampleEnginePath() {
	for _, cgroupsPath := range []string{"/docker/0123456789ab", "kubepods-besteffort.slice:cri-containerd:0123456789ab"} {
		path, err := cgroup.EnginePath(cgroupsPath)
		if err != nil {
			panic(err)
		}
		fmt.Println(path)
	}
	// Output:
	// /docker/0123456789ab
	// /kubepods.slice/kubepods-besteffort.slice/cri-containerd-0123456789ab.scope
}

// Tightest returns the quota that a container meets first.
func ExampleTightest() {
	ms := time.Millisecond
	bound := cgroup.Tightest([]cgroup.Bound{
		{Path: "/kubepods/pod1/app", Quota: 300 * ms, Period: 100 * ms},
		{Path: "/kubepods/pod1", Quota: 100 * ms, Period: 50 * ms},
	})
	fmt.Println(bound.Path)
	// Output: /kubepods/pod1
}
