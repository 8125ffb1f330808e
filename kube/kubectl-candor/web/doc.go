// Package web serves a page with the CPUs of all nodes of a cluster: kubectl candor web for a single user, and candor-web in the
// cluster. It writes nothing to the cluster.
//
// The server has a single watch on the NodeCPUs for all browsers. A browser reads the packed map of all nodes (kube/nodemap),
// then the changes as server-sent events. The names of pods are only read when a user asks for a node or a pod.
//
// The page itself has no data and needs no login. All requests for data need a token in the header Authorization, never a cookie,
// so that no other page can send them. The page reads the events with fetch, since EventSource cannot send the header.
package web
