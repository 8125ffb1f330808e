// Package survey reads the nodes of a cluster and their reports from the API server, and dry-runs the placement of a pod with the code of
// candor-scheduler. It reads the objects once, and writes nothing.
//
// The dry run applies only some rules of kube-scheduler: cordoned nodes, taints, node names, node selectors and resources. Other rules that
// would affect a pod are listed as unread.
package survey
