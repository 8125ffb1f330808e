// Package v1alpha1 defines Candor's objects in a cluster: NodeCPU, the report of a node's agent, and CPUProfile, the settings of some pods'
// containers. They are plain data in the form of the chart's CustomResourceDefinitions; packages kube and kube/nodecpu interpret them.
//
// CPU sets are in the kernel's list format, "0-3,8"; amounts of CPU are in Kubernetes' form, "2" or "1500m".
//
// +kubebuilder:object:generate=true
// +groupName=candor.dev
package v1alpha1
