// Package events writes Kubernetes Events (events.k8s.io/v1) about the pods of a node and about the node itself, so that kubectl
// describe shows the decisions of candor nri.
//
// A [Recorder] never blocks its callers: a separate goroutine ([Recorder.Run]) writes the Events. For a pod and a reason, it
// writes at most one Event in 10 minutes, and counts the repetitions in the series of the Event. For the node, it writes at most
// 25 Events at once and one per second (backlog.go). It drops and counts the other Events. While the API server is unreachable,
// it retains the newest Events, at most 25, so the memory stays constant.
//
// The recorder writes only Events whose reportingInstance is its own node, and only about pods that its callers know from the
// container runtime or the state of this node. The kubelet starts a pod only on the node in spec.nodeName, so these pods are the
// node's own pods. Therefore the agent needs no right to read pods.
package events
