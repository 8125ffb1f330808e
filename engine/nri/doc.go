// Package nri is Candor's front for containerd and CRI-O: a plugin of their Node Resource
// Interface. It decides what a container is (class, wishes, limit) by its pod's annotations and by
// the configuration, asks package host for its CPUs before it starts, and tells the
// runtime. It keeps no state of its own: host has it, so that the plugin may be
// killed and started again at any time.
//
// Engine has the decisions and knows pods and containers as plain data; plugin.go
// alone speaks the runtime's language.
package nri
