// Package kube defines Candor's annotations of pods: the settings of the pod's containers, and the scheduler's hint for the node. It parses
// the annotations, merges settings from several sources, and edits annotations in manifests. It calls no API server and imports no package
// of Kubernetes.
//
// The annotation "candor.dev/class" applies to all containers of a pod, "class.candor.dev/web" only to the container web. In the second
// form, the container's name is the whole text after the slash, because an annotation's key can have only one slash, and every container
// name is valid after the slash.
package kube
