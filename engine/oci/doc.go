// Package oci is the frontend for engines without NRI: Docker, Podman and nerdctl. It replaces their OCI runtime and forwards
// to the real runtime.
//
// It handles three commands of the runtime itself. For create (or run) it allocates the CPUs through package host and edits the
// configuration in a bundle of Candor, from which the real runtime creates the container. Two hooks in that configuration call
// Candor back: after the creation of the cgroup, before the program runs, and at the deletion of the container. An update is a
// resize. It forwards all other commands unchanged; if there is no work afterwards, the real runtime replaces this process.
//
// The cgroup of a container is below Candor's parent cgroup, not at the path of the engine: weights apply between siblings only,
// and host finds, moves and reaps cgroups there.
//
// There is no daemon, and no state besides the state of host. If an engine forgets to delete a container, the next operation
// reaps it.
package oci
