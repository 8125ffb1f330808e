// Package kube holds what Candor and Kubernetes say to each other in names: the
// annotations by which a pod says what its containers are, and how the values of
// several places become one. It reads no cluster and imports none of Kubernetes.
//
// A pod's annotation "candor.dev/class" speaks for all of its containers,
// "class.candor.dev/web" for the container web alone. The name before the dot stands there
// since Kubernetes allows one slash, and after it any container's name.
package kube
