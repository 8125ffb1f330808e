// Package hybrid is the allocator of one node: it decides which CPUs a
// container gets.
//
// Sensitive containers get a cpuset that equals their limit: whole CPUs of their
// own plus at most one fraction of a CPU that others may use too. Flexible
// containers share what is left. A Node is asked for a plan, which changes
// nothing and explains itself, and is then told to commit it:
//
//	node, err := hybrid.NewNode(machine, hybrid.Options{})
//	if err != nil { … }
//	plan, err := node.Plan(hybrid.Request{ID: "web", Limit: 3500, Class: hybrid.Sensitive})
//	if err != nil { … }
//	err = node.Commit(plan)
//
// Two algorithms stand behind that interface: Paper, Algorithm 1 of Bacou et
// al. ("Your Containers should be WYSIWYG", SCC 2019) as published, and Candor,
// which keeps the same promise, shares fewer CPUs, and knows topology.
//
// The package is pure: no I/O, no clock, no goroutine, no randomness. The same
// operations in the same order give the same result; equals fall to the lowest
// CPU id. A Node is not safe for concurrent use.
//
// How the code is laid out: node.go and slot.go hold the state and edit.go the only two
// ways to change it; plan.go and operations.go turn an operation into a Plan; candor.go and
// paper.go are the algorithms; pick*.go choose whole CPUs by topology;
// flexible.go says where flexible containers run and what that shares; moves.go,
// search.go, rescue.go and repack.go move fractions; hint.go takes CPUs that somebody else has planned; direct.go,
// summary*.go, figures.go and fetch.go are for whoever keeps thousands of nodes.
package hybrid
