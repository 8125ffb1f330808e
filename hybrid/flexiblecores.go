package hybrid

import "github.com/candor-project/candor/cpuset"

// Flexible containers that wish for whole cores run on the cores that no sensitive
// container has a part of.

// keepWholeCores takes the highest free cores out of free that flexible
// containers need, which wished for cores without sensitive containers.
func (n *Node) keepWholeCores(free *cpuset.Set, need Milli) {
	whole := n.wholeCores.Set()
	for first := true; first || need > 0; first = false {
		cpu := whole.Last()
		if cpu < 0 {
			return
		}
		core := &n.cores[n.layout.cpus[cpu].core]
		*free = free.Minus(*core)
		whole = whole.Minus(*core)
		need -= Milli(core.Count()) * 1000
	}
}

// wholeCoresFit reports whether the containers that wished for whole cores find
// their time beside those of L3 domains and NUMA nodes, whose CPUs they use too. Where they do not
// on set, it adds all open fractional CPUs to it, so that the others can do without the whole cores.
func (n *Node) wholeCoresFit(set *cpuset.Set, need Milli) bool {
	if n.wholeCoresRoom(set) >= need {
		return true
	}
	open := n.openWithin(&n.usable)
	set.AddAll(&open)
	return n.wholeCoresRoom(set) >= need
}

// wholeCoresRoom returns the time that the whole cores of set can give beside
// the guarantees of each domain: what flows up the tree of domains, no more through each
// than its whole cores have and than its own containers leave.
func (n *Node) wholeCoresRoom(set *cpuset.Set) Milli {
	whole := n.wholeCores.Set().Intersect(*set)
	left := func(d int32, within *cpuset.Set) Milli {
		room, _ := n.roomOn(set, within)
		return room - n.domainNeed(d)
	}
	var sum Milli
	for numa := range n.numas {
		var inNode Milli
		for l3 := range n.l3s {
			if n.l3Node[l3] == numa {
				inNode += min(Milli(whole.CountIn(&n.l3s[l3]))*1000, left(int32(l3), &n.l3s[l3]))
			}
		}
		sum += min(inNode, left(int32(len(n.l3s)+numa), &n.numas[numa]))
	}
	room, _ := n.roomOn(set, &n.usable)
	others := n.flexible.need - n.wholeCoresDemand().need
	return min(sum, room-others)
}
