// Package publish publishes the report of a node to the API server, as the status of the v1alpha1.NodeCPU with its name: at most once per
// second, and only after a change. It reads the state without its lock and runs in a goroutine of its own, so no container waits for it. While
// the API server is unreachable, the node works on, and the newest report follows later.
package publish
