// Package cluster holds the nodes of a Kubernetes cluster as a scheduler knows them: what
// each node's report says that it has granted, and what was promised since and is in no report yet.
//
// A promise lives until the node's report shows it, the pod is gone, or the patience with the
// node has ended. Until then it takes its room, also where the report has none: what is not known for
// certain is never given a second time. What a report showed and the next one lacks, of a pod that is not gone,
// is promised anew: the node has been started again, or makes the container again.
//
// The package talks to nobody and looks at no clock. A Cluster may be used by many goroutines.
package cluster
