// Package kube defines Candor's annotations of pods: the settings of the pod's containers, and the scheduler's hint for the node. It parses
// the annotations, merges settings from several sources, and edits annotations in manifests. It calls no API server and imports no package
// of Kubernetes.
//
// The annotation "candor.dev/class" applies to all containers of a pod, "class.candor.dev/web" only to the container web. In the
// second form, the container's name stands alone after the slash, because the key of an annotation can have only one slash, and every
// name of a container is valid after it.
package kube
