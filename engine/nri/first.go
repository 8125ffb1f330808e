package nri

import "github.com/candor-project/candor/cgroup"

// firstOf is a container's first process; 0 where nobody knows it. CRI-O does not say it.
func (e *Engine) firstOf(p *Pod, ctr *Container) (pid int) {
	path, err := cgroup.EnginePath(ctr.Cgroup)
	if ctr.PID != 0 || err != nil {
		return ctr.PID
	}
	return e.host.FirstIn(grantName(p, ctr.Name), path)
}
