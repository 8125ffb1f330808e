// Package nodecpu turns what a node has into its report, the status of a v1alpha1.NodeCPU, and a report into a
// hybrid.Node that plans as the node's own does. It is pure: it reads no cluster and no machine.
//
// A report comes from elsewhere. Whatever it says, Node answers with a node that keeps the allocator's promises or
// with an error that says what is wrong.
package nodecpu
