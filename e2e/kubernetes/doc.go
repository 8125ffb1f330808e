// Package kubernetes tests Candor against a real API server with a real etcd: the Kubernetes objects, the chart's permissions and
// policies, its installation and upgrade by helm, and candor nri --publish. make e2e-kubernetes runs the tests. Without kube-apiserver
// or etcd, the tests are skipped.
package kubernetes
