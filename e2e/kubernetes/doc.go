// Package kubernetes tests what Candor has in a cluster against a real API server with a real etcd: the objects, the chart's
// rights and policies, and candor nri --publish. make e2e-kubernetes runs it; without the two programs it skips.
package kubernetes
