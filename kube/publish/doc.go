// Package publish writes the report of a node to the API server, as the status of the v1alpha1.NodeCPU with the node's name. It writes at
// most once per second, and only if the report has changed. No container waits for it, because it runs in a separate goroutine and reads
// the node's state without locking it. While the API server is unreachable, the node continues to work; afterwards the newest report is
// published.
package publish
