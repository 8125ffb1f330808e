// Package scheduler is Candor's plugin for kube-scheduler: it asks of every node what the
// allocator there would do with a pod, by the nodes' own reports, and reserves that.
//
// One extension point is in one file: prefilter.go, filter.go, score.go, reserve.go, bind.go, hints.go.
// narrow.go has what keeps plain pods to the best nodes, and PostFilter, for those that it has kept too near; seats.go what
// is remembered of nodes for that.
// What is known of nodes is kept in package cluster; pods are read in pod.go.
package scheduler
