// Package apiserver is a small client of a Kubernetes API server, for programs without a user. It takes the address and the token
// or the certificate from a kubeconfig, or from the service account of a pod. It bounds the size of responses. The callers define
// the types of the objects.
//
// The package replaces client-go, which would make candor, a program on every node, several MB larger.
//
// The client sends secrets only to the API server: it follows no redirects, and its errors contain no secrets.
package apiserver
