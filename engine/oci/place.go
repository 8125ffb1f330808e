package oci

import (
	"fmt"
	"regexp"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
)

// usual matches the default cgroups of engines.
var usual = regexp.MustCompile(`^(` +
	`|/docker/[^/]+` + // Docker
	`|system\.slice:docker:[^:]+` +
	`|/libpod_parent/libpod-[^/]+` + // Podman
	`|(machine|user)\.slice:libpod:[^:]+` +
	`|/default/[^/]+` + // nerdctl, and ctr: the namespace and the id
	`|(system\.slice)?:nerdctl:[^:]+` +
	`)$`)

// chosenGroup returns the cgroup of a container with a chosen parent (--cgroup-parent, a pod). Limits of that parent apply, so
// the container stays there. It returns the zero value for all other containers, which get a cgroup below Candor's parent.
func chosenGroup(groupPath string) (e host.Engine, err error) {
	if usual.MatchString(groupPath) {
		return e, nil
	}
	e.Cgroup, err = cgroup.EnginePath(groupPath)
	return e, err
}

// checkDriver refuses an engine whose cgroup driver is not Candor's. engines and candors are true if the engine's or Candor's
// driver is systemd.
func checkDriver(groupPath string, engines, candors bool) error {
	if engines == candors {
		return nil
	}
	names := map[bool]string{false: "cgroupfs", true: "systemd"}
	return fmt.Errorf("group %.100q: the engine has the cgroup driver %s, Candor %s: must be equal; change the engine's setting or CANDOR_CGROUP_DRIVER",
		groupPath, names[engines], names[candors])
}
