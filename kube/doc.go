// Package kube defines Candor's annotations of pods: the settings of the pod's containers, and the scheduler's hint for the node. It parses
// them, merges settings from several sources, and edits annotations in manifests. It calls no API server and imports no package of
// Kubernetes.
//
// The annotation "candor.dev/class" applies to all containers of a pod, "class.candor.dev/web" only to the container web. The second form
// has the setting before the dot because Kubernetes allows a single slash in a name, and only after the slash is every container name
// valid.
package kube
