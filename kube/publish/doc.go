// Package publish writes the report of a node to the API server, as the status of the v1alpha1.NodeCPU with the node's name. It writes at
// most once per second, and only if the report has changed. No container waits for the API server, because the reports are written in a
// separate goroutine, which reads the node's state without a lock. While the API server is unreachable, the node continues to work;
// afterwards the newest report is published.
package publish
