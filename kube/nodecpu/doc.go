// Package nodecpu converts the state of a node to its report, the status of a v1alpha1.NodeCPU, and a report to a hybrid.Node that plans as
// the node itself. It is pure: it reads no cluster and no machine.
//
// A report is untrusted. For any report, Node returns a node that keeps the allocator's invariants, or an error with the fault.
package nodecpu
