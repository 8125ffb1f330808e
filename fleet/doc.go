// Package fleet keeps thousands of nodes and finds the best of them for a
// container: exactly, under a stated [Order], without asking every node.
//
//	f, err := fleet.New(fleet.Options{Order: fleet.Candor, Resources: []string{"memory"}})
//	err = f.AddNode(0, machine, []int64{64 << 10})
//	placed, err := f.Place(7, &fleet.Request{Limit: 1500, Resources: []int64{512}})
//	cost, ok := f.Release(7)
//
// Nodes and containers have numbers that the caller chooses: small and dense,
// since the fleet keeps them in slices. A container's number is free again after its end.
//
// Each node is a hybrid.Node, so what the fleet counts is what a node does. Every
// order looks only at nodes with the room for a container: CPU time, every further
// resource, no other container of the same Spread; and the CPUs that its view needs.
//
// Whoever knows which containers will end next, as a trace does, says so (Expect): then it takes less time.
//
// The package is pure as hybrid is: no I/O, no clock, no goroutine, no
// randomness. A Fleet is not safe for concurrent use.
package fleet
