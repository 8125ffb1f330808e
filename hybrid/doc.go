// Package hybrid is the CPU allocator of a node: it decides which CPUs each container gets.
//
// A sensitive container gets as many CPUs as its limit, rounded up: exclusive CPUs plus at most one
// fraction of a CPU. Flexible containers share the remaining CPUs.
//
// Plan computes the effect of an operation without changing the node. Plan.Explain lists the decisions
// of a plan with their reasons, and Commit applies a plan:
//
//	node, err := hybrid.NewNode(machine, hybrid.Options{})
//	if err != nil { … }
//	plan, err := node.Plan(hybrid.Request{ID: "web", Limit: 3500, Class: hybrid.Sensitive})
//	if err != nil { … }
//	err = node.Commit(plan)
//
// Two algorithms implement this interface. Paper is Algorithm 1 of Bacou et al. ("Your Containers should be WYSIWYG",
// SCC 2019) as published. Candor is the default. It gives sensitive containers the same number of CPUs, but shares
// fewer CPUs and respects the machine's topology.
//
// The package is pure: no I/O, no clock, no goroutine, no randomness. The same operations in the same
// order give the same result. Of equally good CPUs, the algorithms take the lowest id. A Node is
// not safe for concurrent use.
//
// Package host reads the machine, writes the cgroups and stores the state of a node.
//
// Terms: A slot is the node's record of a container. The arrangement is the CPUs and fractions of all
// sensitive containers. The room of a CPU is its time that belongs to no sensitive container. A domain is
// a part of the node, such as a NUMA node or an L3 domain. Summary defines further terms in a drawing.
//
// The source files by task:
//
//   - node.go and slot.go hold the state; edit.go has the functions that give and take CPUs.
//   - plan.go and operations.go turn an operation into a Plan; grant.go derives the grants.
//   - candor.go and paper.go are the algorithms; pick.go chooses whole CPUs by topology, and kinds.go the kind of
//     cores on hybrid machines.
//   - flexible.go computes the CPUs of flexible containers and the resulting shared time.
//   - moves.go, search.go, rescue.go, pack.go and repack.go move fractions.
//   - hint.go plans on CPUs that a scheduler has chosen in advance.
//   - direct.go, summary.go and summaryquote.go serve callers with thousands of nodes.
package hybrid
