// Package v1alpha1 defines Candor's custom resources: a NodeCPU is the report of the agent on a node, and a CPUProfile has settings for
// containers of a namespace. The types are plain data, from which the CustomResourceDefinitions of the chart are generated. Packages
// kube/nodecpu and kube/profile interpret them.
//
// CPU sets have the kernel's list format, such as "0-3,8". Amounts of CPU have Kubernetes' format, such as "2" or "1500m".
//
// +kubebuilder:object:generate=true
// +groupName=candor.dev
package v1alpha1
