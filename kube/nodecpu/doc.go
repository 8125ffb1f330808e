// Package nodecpu converts the state of a node to a report, which is the status of a v1alpha1.NodeCPU. It also converts a report back to a
// hybrid.Node, which makes the same plans as the original node. The package reads neither a cluster nor a machine.
//
// A report is untrusted. For any report, Node returns either a node that satisfies the allocator's invariants, or an error.
package nodecpu
