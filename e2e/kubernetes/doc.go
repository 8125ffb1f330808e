// Package kubernetes tests Candor in a cluster against a real API server with a real etcd: the objects, the rights and policies
// of the chart, and candor nri --publish. make e2e-kubernetes runs it. Without the two programs the tests skip.
package kubernetes
