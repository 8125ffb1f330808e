// Package survey inspects a cluster from outside: it reads the reports of its nodes, and plans a pod with the code of candor-scheduler. It reads
// from the API server once, and writes nothing.
//
// Of kube-scheduler's own rules it knows cordoned nodes, taints, node selectors and resources. It lists the other rules that apply to a pod.
package survey
