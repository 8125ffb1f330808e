// Package nri is Candor's frontend for containerd and CRI-O: a plugin of their Node Resource Interface. It derives the class, the settings
// and the limit of a container from the pod's annotations and from the configuration. Before the container starts, it allocates the
// container's CPUs through package host, and answers the runtime. It has no state of its own: package host stores the state, so the plugin
// can be killed and restarted at any time.
//
// An Engine makes the decisions; pods and containers are plain data for it. Only plugin.go uses the types of the NRI protocol.
package nri
