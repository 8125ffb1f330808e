// Package podcpu computes a pod's demand for CPUs: the request of each container in start order, and the resources that Kubernetes counts
// for the pod. The settings of a container come from annotations, profiles, the namespace and defaults. candor-scheduler and candor plan
// --cluster share this package so that they get the same results.
//
// A Pod has only the fields of Kubernetes' Pod that Candor reads, under the same JSON names, because Kubernetes' own types would make the
// candor binary 5 MB larger.
package podcpu
