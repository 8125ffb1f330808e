// Package apiserver asks a Kubernetes API server: how it is reached and by whom, as kubectl has it from a kubeconfig or a pod from its service
// account, and calls whose answers are bounded in size. It knows nothing of the objects that are asked for.
//
// client-go can do all this, and watch besides; it would make candor, which is on every node, several MB larger.
//
// What is secret goes to the API server alone: no redirect is followed, and no error tells any of it.
package apiserver
