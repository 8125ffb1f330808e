// Package cluster models the nodes of a Kubernetes cluster for a scheduler: the grants in each node's report, and the reservations that are
// in no report yet.
//
// A reservation lasts until the node's report shows the pod, the pod is deleted, or the timeout of the node ends. Until then it occupies
// its room, even if the report has no room for it: uncertain room is never allocated twice. If the next report lacks a pod of the previous
// report that is not deleted, the pod is reserved again: the node was restarted, or recreates the container.
//
// The package makes no calls and reads no clock. A Cluster is safe for concurrent use.
package cluster
