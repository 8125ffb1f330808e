// Package remote runs candor on the nodes of a cluster and collects its output. On a node with candor's agent, it runs candor in
// the agent's container. On another node, it can run candor in a pod that it creates, and reads the log of the pod.
//
// A node that does not answer delays the other nodes by a bounded time, and its answer is an error. Run deletes its pods when it
// ends. If the process is killed, the kubelets end the pods after podDeadline, and DeleteEnded of a later process deletes them.
//
// Output comes from nodes and is hostile until it is parsed. Its size is bounded.
package remote
