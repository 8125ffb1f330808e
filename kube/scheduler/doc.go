// Package scheduler is Candor's plugin for kube-scheduler: it dry-runs the node's allocator for a pod on every node, from the nodes' own
// reports, and reserves the result.
//
// Each extension point has a file: prefilter.go, filter.go, score.go, reserve.go, bind.go, hints.go. preselect.go restricts plain pods to
// the best nodes; its PostFilter evaluates all nodes for pods that these nodes refuse. nodecache.go caches the nodes for that. Package
// cluster stores the state of the nodes; pod.go reads pods.
package scheduler
