// Package podcpu reads what a pod asks of the CPUs of its node: its containers in the order in which they start, what each is by annotations,
// profiles, namespace and defaults, and what Kubernetes counts for it. The scheduler and candor plan --cluster read pods by it, so that both
// mean the same.
//
// A Pod has those fields of Kubernetes' own that count here, by the same names in JSON. (Kubernetes' own types would make candor 5 MB larger.)
package podcpu
