// Package fleet manages thousands of nodes and finds the best node for a container under an [Order]. The result is exact, although the
// search does not evaluate every node.
//
//	f, err := fleet.New(fleet.Options{Order: fleet.Candor, Resources: []string{"memory"}})
//	err = f.AddNode(0, machine, []int64{64 << 10})
//	placed, err := f.Place(7, &fleet.Request{Limit: 1500, Resources: []int64{512}})
//	cost, ok := f.Release(7)
//
// The caller chooses each NodeID and ContainerID. The IDs should be small and dense, because the fleet stores nodes and containers in
// slices. The caller can reuse the ContainerID of a released container.
//
// Each node is a hybrid.Node, the allocator that also runs on real nodes, so the fleet's results are those of a real node. A node
// has room for a container if it has the CPU time and the further resources that the container requests, and has no container
// with the same Request.Spread. Every order ignores nodes without room, and nodes with too few CPUs for the container's view.
//
// # Index
//
// A B+ tree holds the nodes, sorted by a key (btree.go). Nodes with similar scores have keys close to each other. A block of the tree has
// up to 16 children: smaller blocks or, in a leaf block, nodes. A block stores a row for each child. For each value that the score depends
// on, such as the free CPU time, the row holds the best value among the nodes below the child. A row gives a lower bound on the scores of
// these nodes; a lower score is better. A best-first search opens the blocks in the order of their bounds:
//
//	block ── row: best values below a child ── … ── leaf block ── row: values of a node
//	          │                                                    │
//	          └ bound: no node below has a better score            └ score: exact, computed from the node
//
// A caller that knows which containers end next, for example from a trace, can announce them (Expect) to make their release faster.
//
// Like hybrid, the package is pure: no I/O, no clock, no goroutines, no randomness. A Fleet is not safe for concurrent use.
package fleet
