package nodemap

import (
	"errors"
	"fmt"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// A Use is the use of a CPU.
type Use uint8

// The uses of a CPU.
const (
	Reserved   Use = iota // Candor does not allocate the CPU
	Shared                // the flexible containers share the CPU
	Fractional            // the CPU runs fractions of sensitive containers
	Exclusive             // the CPU belongs to a single sensitive container
)

// A State is the state of a node's report.
type State uint8

// The states of a report.
const (
	Ready     State = iota // the report has the CPUs of the node
	NoReport               // the agent has not reported yet
	GivenBack              // Candor allocates no CPUs on the node any more
	Unusable               // the report contradicts itself
	Removed   State = 255  // the report is deleted; only in maps of changes
)

// A Node is the CPU map of a node. Without the state Ready it has no CPUs.
type Node struct {
	Name       string
	State      State
	CPUs       []Use // of the online CPUs, in the order of their IDs
	Free       int   // shared CPUs beyond the guarantees of the flexible containers
	SharedTime hybrid.Milli
	Sensitive  hybrid.Milli // sum of the sensitive containers' limits
	Reported   int64        // seconds since 1970 by the node's clock; 0 if unknown
}

// Of returns the map of a report. The state of an invalid report is Unusable, and the error has the reason. Of does not check the
// grants: nodecpu.Node does.
func Of(name string, s *v1alpha1.NodeCPUStatus) (Node, error) {
	n := Node{Name: name}
	if !s.Reported.IsZero() {
		n.Reported = min(max(s.Reported.Unix(), 0), 1<<32-1)
	}
	switch {
	case s.Counter == 0 && s.Machine.Online == "":
		n.State = NoReport
		return n, nil
	case s.Phase != "":
		n.State = GivenBack
		return n, nil
	}
	read := n
	if err := read.read(s); err != nil {
		n.State = Unusable
		return n, err
	}
	return read, nil
}

// read sets the CPUs and the numbers of a report.
func (n *Node) read(s *v1alpha1.NodeCPUStatus) error {
	var online, usable, exclusive, fractional, shared cpuset.Set
	for _, field := range []struct {
		name, text string
		set        *cpuset.Set
	}{
		{"machine.online", s.Machine.Online, &online}, {"usable", s.Usable, &usable}, {"pools.exclusive", s.Pools.Exclusive, &exclusive},
		{"pools.fractional", s.Pools.Fractional, &fractional}, {"pools.shared", s.Pools.Shared, &shared},
	} {
		var err error
		if *field.set, err = cpuset.Parse(field.text); err != nil {
			return fmt.Errorf("%s: %w", field.name, err)
		}
	}
	switch all := exclusive.Union(fractional).Union(shared); {
	case online.IsEmpty():
		return errors.New("machine.online: no CPU")
	case !usable.SubsetOf(&online):
		return fmt.Errorf("usable: CPUs %v are not online", usable.Minus(online))
	case all != usable, exclusive.Count()+fractional.Count()+shared.Count() != usable.Count():
		return errors.New("pools: each usable CPU must be in exactly one pool")
	}
	for cpu := range online.All() {
		use := Reserved
		switch {
		case exclusive.Contains(cpu):
			use = Exclusive
		case fractional.Contains(cpu):
			use = Fractional
		case shared.Contains(cpu):
			use = Shared
		}
		n.CPUs = append(n.CPUs, use)
	}
	return n.readAmounts(s, usable.Count(), shared.Count())
}

// readAmounts sets the numbers of a report.
func (n *Node) readAmounts(s *v1alpha1.NodeCPUStatus, usable, shared int) (err error) {
	if n.Sensitive, err = amount("sensitive", s.Sensitive); err != nil {
		return err
	}
	if n.SharedTime, err = amount("sharedTime", s.SharedTime); err != nil {
		return err
	}
	minimum, err := amount("minShared", s.MinShared)
	if err != nil {
		return err
	}
	var flexible hybrid.Milli
	for i := range s.Grants {
		g := &s.Grants[i]
		if g.Class == hybrid.Sensitive.String() {
			continue
		}
		text := g.Request
		if text == "" {
			text = g.Limit
		}
		guarantee, err := amount("request", text)
		if err != nil {
			return fmt.Errorf("grant %d: %w", i, err)
		}
		flexible = min(flexible+guarantee, hybrid.MaxLimit)
	}
	left := hybrid.Milli(1000*usable) - n.Sensitive - max(flexible, minimum)
	n.Free = min(shared, int(max(left, 0)/1000))
	return nil
}

// amount parses an amount of CPU. "" is 0.
func amount(name, text string) (hybrid.Milli, error) {
	if text == "" {
		return 0, nil
	}
	m, err := hybrid.ParseMilli(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// Counts returns the number of CPUs of each use, by Use.
func (n *Node) Counts() (counts [4]int) {
	for _, use := range n.CPUs {
		counts[use]++
	}
	return counts
}
