// Package publish writes what a node has to the API server, as the status of the v1alpha1.NodeCPU of its name: at most
// once a second, and only what has changed. It reads the state without its lock and runs in a goroutine of its own, so no
// container waits for it; where the API server is away, the node goes on, and the newest report follows when it is back.
package publish
