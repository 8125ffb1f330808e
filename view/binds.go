package view

import "path/filepath"

// A Bind is a bind mount of a view's file, for a caller that mounts it without Mount: the runtime of a container.
type Bind struct {
	Source     string // a file of the view
	Target     string // the kernel's own file
	Filesystem string // the mount point of the file system that the target is in
}

// Binds are the mounts that put the view in dir in force.
func Binds(dir string) []Bind {
	return []Bind{
		{filepath.Join(dir, onlineName), hostOnline, "/sys"},
		{filepath.Join(dir, cpuinfoName), hostCPUInfo, "/proc"},
	}
}
