// Package survey looks at a cluster from outside: the reports of its nodes, and where a pod would go by the code that candor-scheduler
// decides by. It reads from the API server once, and writes nothing.
//
// Of what kube-scheduler looks at besides Candor it knows cordoned nodes, taints, node selectors and resources. What it does not know it says
// of each pod.
package survey
