// Package scheduler is Candor's plugin for kube-scheduler. For each pod it dry-runs the CPU allocator on the nodes, starting from their
// reports (NodeCPUs), and reserves the resulting CPUs on the selected node.
//
// Each extension point has a file: prefilter.go, filter.go, score.go, reserve.go, bind.go, hints.go. preselect.go limits the evaluation of
// a pod without node constraints to the best nodes. If all of these nodes refuse the pod, the plugin's PostFilter requests an evaluation
// of all nodes. nodecache.go caches the nodes for the preselection. pod.go reads pods. Package cluster stores the state of the nodes.
package scheduler
