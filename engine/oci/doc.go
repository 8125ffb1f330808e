// Package oci is the front for engines without NRI: Docker, Podman, nerdctl. It stands in
// the place of their OCI runtime, and forwards to the real one.
//
// Of all the runtime's commands it looks at three. A create (or run) is planned: the
// container gets its CPUs through package host, its configuration is edited in a bundle of
// Candor's own, and the real runtime makes it from there. Two hooks in that configuration call Candor back: when the
// group is made and nothing of the program has run, and when the container is
// deleted. An update is a resize. All else goes to the real runtime as it is; where
// nothing has to be done afterwards, the real runtime takes this process's place.
//
// A container's group is among Candor's own, not where the engine would have it: weights
// decide between siblings only, and host finds, moves and reaps groups there.
//
// There is no daemon and no state but host's. What an engine forgets to delete the next
// operation reaps.
package oci
