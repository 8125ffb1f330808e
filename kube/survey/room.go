package survey

import (
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/podcpu"
)

// Room is the free CPU of a node.
type Room struct {
	// Free is the CPU that no pod has requested: the node's allocatable CPU minus the requests of its pods. It is negative on an
	// overcommitted node.
	Free hybrid.Milli
	// Whole is the largest number of CPUs of a sensitive container that fits now, with a whole number of CPUs as its limit. It is
	// at most Free. 0 without a report.
	Whole int
	// Shared is the shared time of the node's sensitive containers (hybrid.Node.Shared).
	Shared hybrid.Milli
	// Pools are the CPUs by their use, and Usable is their number.
	Pools    hybrid.Pools
	Usable   int
	Cordoned bool // no new pods, except pods that tolerate it
}

// Room returns the free CPU of a node, with the pods that are bound to the node and not in its report yet.
func (s *Survey) Room(n *Node) Room {
	r := Room{Free: n.free.MilliCPU(), Cordoned: n.spec.Unschedulable}
	node := s.cluster.Node(n.Name)
	if n.CPUs == nil || node == nil {
		return r
	}
	usable := node.Usable()
	r.Usable, r.Pools, r.Shared = usable.Count(), node.Pools(), node.Shared()
	// If k CPUs fit, k-1 CPUs fit too.
	low, high := 0, min(r.Usable, int(max(r.Free, 0)/1000))
	for low < high {
		middle := (low + high + 1) / 2
		if _, err := node.Cost(&hybrid.Request{Class: hybrid.Sensitive, Limit: hybrid.Milli(1000 * middle)}); err == nil {
			low = middle
		} else {
			high = middle - 1
		}
	}
	r.Whole = low
	return r
}

// Fits returns how many sensitive containers with a limit fit on a node at the same time, at most maxCount. Each is strict, and
// requests its limit. 0 without a report.
func (s *Survey) Fits(n *Node, limit hybrid.Milli, maxCount int) (count int) {
	node := s.cluster.Node(n.Name)
	if n.CPUs == nil || node == nil || limit <= 0 {
		return 0
	}
	if pods, isBounded := n.free[podsName]; isBounded {
		maxCount = min(maxCount, int(max(pods.Value(), 0)))
	}
	free := n.free[podcpu.CPU]
	for count < maxCount && hybrid.Milli(free.MilliValue()) >= hybrid.Milli(count+1)*limit {
		if _, _, err := node.Place(&hybrid.Request{Class: hybrid.Sensitive, Limit: limit}); err != nil {
			break
		}
		count++
	}
	return count
}
