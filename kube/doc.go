// Package kube defines the annotations through which Candor and Kubernetes exchange settings: the annotations of a pod for its
// containers, and the precedence of several sources. It reads no cluster and imports no package of Kubernetes.
//
// A pod's annotation "candor.dev/class" applies to all of its containers, "class.candor.dev/web" to the container web only. The setting
// precedes the dot because Kubernetes allows a single slash, and any container's name can follow the slash.
package kube
