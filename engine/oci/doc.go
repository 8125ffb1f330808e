// Package oci is the frontend for engines without NRI: Docker, Podman and nerdctl. It replaces their OCI runtime and forwards
// to the real runtime.
//
// For create and run, it allocates the CPUs through package host and edits the configuration in a bundle of Candor, from which
// the real runtime creates the container. Two hooks in that configuration call Candor back: the first before the program runs,
// when the cgroup exists, and the second at the deletion of the container. For update, it resizes the container. Before delete,
// it moves helpers out of the cgroup; it refuses restore. It forwards all other commands unchanged. If no work follows, the
// real runtime replaces this process.
//
// The cgroup of a container is below Candor's parent cgroup, not at the path of the engine. The reason is that weights apply
// between siblings only, and that package host finds, moves and reaps cgroups there. Only a container with a chosen parent
// (--cgroup-parent) stays at the engine's path.
//
// There is no daemon, and no state besides the state of package host. If an engine forgets to delete a container, the next
// operation reaps it.
package oci
