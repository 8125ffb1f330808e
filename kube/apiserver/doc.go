// Package apiserver is a small client of a Kubernetes API server. It takes the address and the credentials from a kubeconfig, like kubectl,
// or from the service account of a pod. It bounds the size of responses. The callers define the types of the objects.
//
// The package replaces client-go, which would make candor, a program on every node, several MB larger.
//
// The client sends secrets only to the API server: it follows no redirects, and its errors contain no secrets.
package apiserver
