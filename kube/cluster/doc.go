// Package cluster models the nodes of a Kubernetes cluster for a scheduler. A node has the grants in its report (a NodeCPU), and the
// reservations of pods that the scheduler has placed there and that the report does not show yet.
//
// The room of a pod is the CPU time and the CPUs that the pod's requests need on a node. A reservation occupies the room of its pod until
// the node's report shows the pod, the pod is deleted, or the reservation times out. This is true even if the report leaves too little room
// for the pod (see claim.go), so that no room is promised to two pods. If a report lacks a pod that the previous report showed and that was
// not deleted, the pod is reserved again, because the node was restarted or recreates the container.
//
// The package calls no API server and reads no clock. A Cluster is safe for concurrent use.
package cluster
