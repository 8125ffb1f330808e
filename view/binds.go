package view

import "path/filepath"

// A Bind describes a bind mount of a view's file. It is for callers that do not use Mount, because the runtime of a
// container makes the mounts.
type Bind struct {
	Source     string // file of the view
	Target     string // file of the kernel that the mount hides
	Filesystem string // mount point of the file system that contains the target
}

// Binds returns the bind mounts of the view in dir.
func Binds(dir string) []Bind {
	return []Bind{
		{filepath.Join(dir, onlineName), hostOnline, "/sys"},
		{filepath.Join(dir, cpuinfoName), hostCPUInfo, "/proc"},
	}
}
