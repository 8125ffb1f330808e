package topology_test

import (
	"fmt"
	"os"

	"github.com/candor-project/candor/topology"
)

// Parse makes a machine from hwloc's synthetic notation, for tests and plans without the machine.
func ExampleParse() {
	machine, err := topology.Parse("pack:2 numa:1 l3:2 core:4 pu:2")
	if err != nil {
		panic(err)
	}
	fmt.Println(len(machine.CPUs), "CPUs in", len(machine.Nodes), "NUMA nodes and", len(machine.L3s), "L3 domains")

	// The second threads of the cores have the higher numbers, as on most machines.
	core := machine.Cores[machine.CPU(3).Core]
	fmt.Println("CPU 3 shares a core with", core.CPUs)
	fmt.Println("node 1 has the CPUs", machine.Nodes[1].CPUs)
	// Output:
	// 32 CPUs in 2 NUMA nodes and 4 L3 domains
	// CPU 3 shares a core with 3,19
	// node 1 has the CPUs 8-15,24-31
}

// A machine has a JSON form for other programs. Decoding it restores an equal machine.
func ExampleMachine_UnmarshalJSON() {
	machine, err := topology.Parse("core:2 pu:1")
	if err != nil {
		panic(err)
	}
	text, err := machine.MarshalJSON()
	if err != nil {
		panic(err)
	}
	var restored topology.Machine
	if err := restored.UnmarshalJSON(text); err != nil {
		panic(err)
	}
	fmt.Println(restored.Online, restored.Description())
	// Output: 0-1 pack:1 numa:1 core:2 pu:1
}

// Read accepts any file system: a copy of the sysfs of another machine describes that machine.
func ExampleRead() {
	machine, err := topology.Read(os.DirFS("/"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	if err := machine.WriteTree(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
