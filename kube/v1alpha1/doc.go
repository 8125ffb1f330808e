// Package v1alpha1 has Candor's objects in a cluster: NodeCPU, what a node's agent says of its CPUs, and
// CPUProfile, what the containers of some pods are. They are plain data, written as in the CustomResourceDefinitions of the
// chart; what they mean is told by packages kube and kube/nodecpu.
//
// Sets of CPUs are in the kernel's list format, "0-3,8"; amounts of CPU time per time are written as Kubernetes does,
// "2" or "1500m".
package v1alpha1
