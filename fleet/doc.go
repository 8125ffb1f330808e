// Package fleet manages thousands of nodes and finds the best node for a container: exactly, under a stated [Order], without evaluating
// every node.
//
//	f, err := fleet.New(fleet.Options{Order: fleet.Candor, Resources: []string{"memory"}})
//	err = f.AddNode(0, machine, []int64{64 << 10})
//	placed, err := f.Place(7, &fleet.Request{Limit: 1500, Resources: []int64{512}})
//	cost, ok := f.Release(7)
//
// The caller chooses the numbers of nodes and containers: small and dense, since the fleet stores them in slices. The number of an ended
// container can be reused.
//
// Each node is a hybrid.Node, so the fleet's results are those of a real node. Every order considers only nodes with room for a container:
// CPU time, every further resource, no other container of the same Spread, and the CPUs for its view.
//
// # Index
//
// The nodes are in a B+ tree by a key that keeps similar nodes together (btree.go). Each block stores a row for each of its parts:
// the best figures of the part's nodes. A row gives a bound on their scores, and a best-first search opens the blocks with the best bound:
//
//	block ── row: best figures of 16 blocks ── … ── block of nodes ── row: figures of a node
//	          │                                                        │
//	          └ bound: no node below is better                         └ score: exact, from the node
//
// A caller that knows which containers end next, as a trace does, announces them (Expect), which saves time.
//
// The package is pure as hybrid is: no I/O, no clock, no goroutine, no randomness. A Fleet is not safe for concurrent use.
package fleet
