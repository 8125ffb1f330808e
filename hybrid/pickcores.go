package hybrid

import "github.com/candor-project/candor/cpuset"

// pickCores chooses whole free cores with count CPUs in all, none of which is
// left over; ok is false if that cannot be.
func (n *Node) pickCores(free, near *cpuset.Set, count int) (picked cpuset.Set, last int, ok bool) {
	usable := n.wholeCores.Set().Intersect(*free)
	for cpu := usable.First(); cpu >= 0; cpu = usable.Next(cpu + 1) {
		if core := &n.cores[n.layout.cpus[cpu].core]; !core.SubsetOf(&usable) {
			usable = usable.Minus(*core)
		}
	}
	if usable.Count() < count {
		return picked, -1, false
	}
	picked, last = n.pick(&usable, near, count, Prefer)
	if n.onWholeCores(&picked) {
		return picked, last, true
	}
	return n.pickExactly(&usable, count)
}

// pickExactly chooses whole cores with count CPUs in all where cores are of
// several sizes and the best domain has none that fit: the largest ones first, the lowest of equals.
func (n *Node) pickExactly(usable *cpuset.Set, count int) (picked cpuset.Set, last int, ok bool) {
	for size := n.threads; size >= n.least; size-- {
		left := usable.Minus(picked)
		for cpu := left.First(); cpu >= 0 && count >= size; cpu = left.Next(cpu + 1) {
			core := n.layout.cpus[cpu].core
			if len(n.siblings[core]) != size || picked.Contains(cpu) {
				continue
			}
			picked.AddAll(&n.cores[core])
			last = n.cores[core].Last()
			count -= size
		}
	}
	return picked, last, count == 0
}
