// Package apiserver is a small client of a Kubernetes API server: it finds the server and the credentials as kubectl does from a kubeconfig,
// or as a pod does from its service account, and makes calls with bounded responses. It does not know the objects.
//
// client-go has all this, and watches as well. It would make candor, which runs on every node, several MB larger.
//
// Secrets go to the API server only: the client follows no redirect, and no error contains them.
package apiserver
