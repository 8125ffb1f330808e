// Package podcpu reads the demand of a pod for the CPUs of its node: its containers in the order of their start, the settings of each from
// annotations, profiles, namespace and defaults, and the resources that Kubernetes counts. The scheduler and candor plan --cluster both use
// it, so that they agree.
//
// A Pod has the relevant fields of Kubernetes' Pod, under the same JSON names. (Kubernetes' own types would make candor 5 MB larger.)
package podcpu
