package fleet_test

import (
	"errors"
	"fmt"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// exampleFleet returns a fleet of two nodes, with four and with eight CPUs, each with 1,000 MiB of memory.
func exampleFleet() *fleet.Fleet {
	f, err := fleet.New(fleet.Options{Order: fleet.Candor, Resources: []string{"memory"}})
	if err != nil {
		panic(err)
	}
	for id, description := range []string{"core:4 pu:1", "core:8 pu:1"} {
		machine, err := topology.Parse(description)
		if err == nil {
			err = f.AddNode(fleet.NodeID(id), machine, []int64{1000})
		}
		if err != nil {
			panic(err)
		}
	}
	return f
}

// Place places a container on the best node. The cost describes how the node has changed.
func Example() {
	f := exampleFleet()
	placed, err := f.Place(7, &fleet.Request{Class: hybrid.Sensitive, Limit: 6500, Resources: []int64{200}})
	if err != nil {
		panic(err)
	}
	fmt.Println("node", placed.Node, "adds", placed.Cost.Shared, "of shared time")
	fmt.Println("memory left there:", f.Free(placed.Node))

	f.Release(7)
	fmt.Println("containers:", f.Totals().Containers)
	// Output:
	// node 1 adds 0 of shared time
	// memory left there: [800]
	// containers: 0
}

// Choose changes nothing. The error explains why no node can take the container.
func ExampleFleet_Choose() {
	f := exampleFleet()
	node, err := f.Choose(&fleet.Request{Class: hybrid.Flexible, Limit: 1000, Resources: []int64{1001}})
	fmt.Println(node == fleet.NoNode, errors.Is(err, hybrid.ErrNoCapacity))
	// Output: true true
}

// The containers of a removed node are on no node. The caller places them again.
func ExampleFleet_RemoveNode() {
	f := exampleFleet()
	request := &fleet.Request{Class: hybrid.Sensitive, Limit: 2000}
	placed, err := f.Place(1, request)
	if err != nil {
		panic(err)
	}
	lost, err := f.RemoveNode(placed.Node)
	if err != nil {
		panic(err)
	}
	for _, container := range lost {
		again, err := f.Place(container, request)
		if err != nil {
			panic(err)
		}
		fmt.Println("container", container, "moves to another node:", again.Node != placed.Node)
	}
	// Output: container 1 moves to another node: true
}
