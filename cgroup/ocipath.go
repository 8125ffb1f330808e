package cgroup

// OCIPath is how a group of that name is written in the configuration of an OCI
// container, linux.cgroupsPath: a path below the mount points, with systemd
// "slice:prefix:name".
func (t *Tree) OCIPath(name string) string {
	if t.driver == Systemd {
		return t.parent + ":candor:" + name
	}
	return t.parent + "/" + name
}
