package hybrid

import "github.com/candor-project/candor/cpuset"

// Where no NUMA node holds all of a container, it takes several.

// firstNUMA returns the NUMA node to begin with where none holds count CPUs: the
// one that with those which nextNUMA adds makes the fewest, then the nearest to each other.
func (p *picker) firstNUMA(count int) int {
	best, bestNodes, bestDistance := -1, 0, 0
	for i := range p.numas {
		if p.freeInNUMA(i) == 0 {
			continue
		}
		if nodes, distance := p.tour(i, count); best < 0 || nodes < bestNodes || nodes == bestNodes && distance < bestDistance {
			best, bestNodes, bestDistance = i, nodes, distance
		}
	}
	return best
}

// tour returns how many NUMA nodes are needed for count CPUs beginning with one,
// and the sum of their distances.
func (p *picker) tour(numa, count int) (nodes, distance int) {
	var used cpuset.Set
	for numa >= 0 && count > 0 {
		nodes++
		distance += p.distance(numa, &used)
		used.AddAll(&p.numas[numa])
		count -= p.freeInNUMA(numa)
		numa = p.nextNUMA(count, &used)
	}
	return nodes, distance
}

// nextNUMA returns the NUMA node to go on with after those that are used: the
// nearest with room for all of count CPUs if there is one, else the one with the most; -1: none.
func (p *picker) nextNUMA(count int, used *cpuset.Set) int {
	best := -1
	var bestKey [3]int
	for i := range p.numas {
		free := p.freeInNUMA(i)
		if free == 0 || used.Overlaps(&p.numas[i]) {
			continue
		}
		key := [3]int{1, -free, p.distance(i, used)}
		if free >= count {
			key = [3]int{0, p.distance(i, used), free}
		}
		if best < 0 || lessKey(&key, &bestKey) {
			best, bestKey = i, key
		}
	}
	return best
}

func lessKey(a, b *[3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// distance returns the sum of the distances of a NUMA node to those that are
// used, and to those where the container has CPUs.
func (p *picker) distance(numa int, used *cpuset.Set) int {
	sum := 0
	distances := p.machine.Nodes[numa].Distances
	for i := range p.numas {
		if i < len(distances) && (used.Overlaps(&p.numas[i]) || p.near.Overlaps(&p.numas[i])) {
			sum += distances[i]
		}
	}
	return sum
}
