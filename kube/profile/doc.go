// Package profile decides what a container is when several places may say so: its pod's annotations, the CPUProfiles of
// its namespace, the namespace's labels, and the defaults; the first that says something counts. It is pure: who calls it
// has read the objects.
package profile
