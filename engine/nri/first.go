package nri

import "github.com/candor-project/candor/cgroup"

// firstOf returns the first process of a container, or 0 if it is unknown. CRI-O does not report it.
func (e *Engine) firstOf(p *Pod, ctr *Container) (pid int) {
	path, err := cgroup.EnginePath(ctr.Cgroup)
	if ctr.PID != 0 || err != nil {
		return ctr.PID
	}
	return e.host.FirstIn(grantName(p, ctr.Name), path)
}
