package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// Distances between NUMA nodes in the machines that Parse returns.
const (
	sameSocketDistance  = 12
	otherSocketDistance = 21
)

// A SyntaxError is the reason why a machine description is invalid.
type SyntaxError struct {
	Description string
	Reason      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf(`description %q: %s; use levels from the largest to the smallest, such as "pack:2 numa:2 l3:2 core:4 pu:2"`,
		shorten(e.Description), e.Reason)
}

// Parse builds a machine from hwloc's synthetic notation: levels from the largest to the smallest,
// each with its count in an object of the previous level. "pack:2 numa:2 l3:2 core:4 pu:2" has 2
// sockets with 2 NUMA nodes each, 2 L3 domains in a node, 4 cores in a domain, 2 CPUs on a core: 64
// CPUs.
//
// Levels are package (or socket), numanode (or node), l3, core and pu. The levels machine, group, die,
// l1, l2, l4 and l5 only multiply. Names can be abbreviated to two letters, in upper or lower case.
// hwloc 2's form of a NUMA node is accepted: "pack:2 [numa] core:4" has a node in each object of the
// previous level.
//
// Sockets and NUMA nodes can be in either order; "pu" must be last, and "core" before it. Without pu a
// core has a single CPU; without core each CPU is a core. Without package or numa there is a single
// socket or node; without l3 the machine has no L3. Attributes such as "(memory=16GB)" are ignored;
// "indexes=" is refused.
//
// CPUs are numbered as on most Linux machines, unlike in hwloc: first the first threads of all cores,
// then the second threads. All CPUs are online. Distances are 10 (local), 12 (same socket) and 21.
// Errors are of type *SyntaxError.
func Parse(description string) (*Machine, error) {
	levels, err := parseLevels(description)
	if err == nil {
		err = checkLevels(levels)
	}
	if err != nil {
		return nil, &SyntaxError{description, err.Error()}
	}
	return factsOf(levels).buildMachine()
}

// A rank is the meaning of a level for a Machine.
type rank uint8

const (
	rankOther rank = iota // multiplies, and holds cores
	rankPackage
	rankNUMA
	rankL3
	rankCore
	rankPrivate // l1, l2: multiplies, on either side of core
	rankPU
)

// A level is a part of a description, such as "core:4".
type level struct {
	rank  rank
	name  string // as written
	count int    // in an object of the previous level
	total int    // on the machine
}

// levelNames are hwloc's names. Two letters of a name suffice, except for caches.
var levelNames = []struct {
	name string
	rank rank
}{
	{"machine", rankOther}, {"group", rankOther}, {"die", rankOther},
	{"package", rankPackage}, {"socket", rankPackage},
	{"numanode", rankNUMA}, {"node", rankNUMA},
	{"core", rankCore}, {"pu", rankPU},
}

const levelList = "machine, group, package (socket), die, numa (node), l5 to l1, core, pu"

// rankOf returns the rank of a level's name.
func rankOf(written string) (rank, error) {
	name := strings.ToLower(written)
	if len(name) >= 2 && name[0] == 'l' && name[1] >= '1' && name[1] <= '5' {
		switch strings.TrimSuffix(name[2:], "cache") {
		case "", "u", "d", "i":
			switch name[1] {
			case '3':
				return rankL3, nil
			case '1', '2':
				return rankPrivate, nil
			}
			return rankOther, nil
		}
	}
	for _, l := range levelNames {
		if len(name) >= 2 && strings.HasPrefix(l.name, name) {
			return l.rank, nil
		}
	}
	if strings.TrimRight(name, "0123456789") == "group" { // hwloc's Group0, Group1
		return rankOther, nil
	}
	return 0, fmt.Errorf("unknown level %q (levels are %s)", shorten(written), levelList)
}

// parseLevels parses the levels without checking their order.
func parseLevels(s string) ([]level, error) {
	if strings.HasPrefix(strings.TrimLeft(s, " "), "(") { // attributes of the machine
		rest, err := skipAttributes(strings.TrimLeft(s, " "))
		if err != nil {
			return nil, err
		}
		s = rest
	}
	var levels []level
	total := 1
	for {
		s = strings.TrimLeft(s, " \t\n")
		if s == "" {
			return levels, nil
		}
		if s[0] == '[' {
			rest, err := skipMemory(s)
			if err != nil {
				return nil, err
			}
			levels = append(levels, level{rankNUMA, "[numa]", 1, total})
			s = rest
			continue
		}
		l, rest, err := parseLevel(s)
		if err != nil {
			return nil, err
		}
		// Check before the product can overflow, and before any allocation.
		if total *= l.count; total > cpuset.Max {
			return nil, fmt.Errorf("more than %d CPUs, the maximum", cpuset.Max)
		}
		l.total = total
		levels = append(levels, l)
		s = rest
	}
}

// parseLevel parses the first level of s.
func parseLevel(s string) (l level, rest string, err error) {
	end := strings.IndexAny(s, " \t\n([")
	if end < 0 {
		end = len(s)
	}
	name, digits, ok := strings.Cut(s[:end], ":")
	if l.rank, err = rankOf(name); err != nil {
		return l, "", err
	}
	l.name, rest = shorten(name), s[end:]
	if !ok {
		return l, "", fmt.Errorf("%q has no number", l.name)
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil && strings.Trim(digits, "0123456789") != "" || digits == "" {
		return l, "", fmt.Errorf("%q is not a number of %ss", shorten(digits), l.name)
	}
	if n < 1 || n > cpuset.Max { // including numbers out of range for ParseUint
		return l, "", fmt.Errorf("%q has %s: must be 1 to %d CPUs in all", l.name, shorten(digits), cpuset.Max)
	}
	l.count = int(n)
	if strings.HasPrefix(rest, "(") {
		rest, err = skipAttributes(rest)
	}
	return l, rest, err
}

// skipAttributes parses "(memory=16GB …)" at the start of s.
func skipAttributes(s string) (rest string, err error) {
	inside, rest, isClosed := strings.Cut(s[1:], ")")
	if !isClosed {
		return "", fmt.Errorf("%q is not closed", shorten(s))
	}
	for attribute := range strings.FieldsSeq(inside) {
		name, _, ok := strings.Cut(attribute, "=")
		if !ok {
			return "", fmt.Errorf("%q is not an attribute, such as memory=16GB", shorten(attribute))
		}
		if strings.EqualFold(name, "indexes") {
			return "", fmt.Errorf("indexes= is not supported: CPUs are numbered as Linux does")
		}
	}
	return rest, nil
}

// skipMemory parses "[numa(memory=16GB)]" at the start of s.
func skipMemory(s string) (rest string, err error) {
	inside, rest, isClosed := strings.Cut(s[1:], "]")
	if !isClosed {
		return "", fmt.Errorf("%q is not closed", shorten(s))
	}
	name, attributes, hasAttributes := strings.Cut(inside, "(")
	name = strings.TrimSpace(name)
	if r, err := rankOf(name); err != nil || r != rankNUMA {
		return "", fmt.Errorf("[%s]: only [numa] is valid in brackets", shorten(name))
	}
	if hasAttributes {
		after, err := skipAttributes("(" + attributes)
		if err != nil || strings.TrimSpace(after) != "" {
			return "", fmt.Errorf("[%s] is not a NUMA node with attributes", shorten(inside))
		}
	}
	return rest, nil
}

// checkLevels returns an error if the levels do not describe a machine.
func checkLevels(levels []level) error {
	if len(levels) == 0 {
		return fmt.Errorf("no levels")
	}
	var seen [rankPU + 1]bool
	for _, l := range levels {
		switch {
		case seen[l.rank] && l.rank != rankOther && l.rank != rankPrivate:
			return fmt.Errorf("a second level of %q", l.name)
		case seen[rankPU]:
			return fmt.Errorf("%q after pu, the smallest level", l.name)
		case seen[rankCore] && l.rank != rankPU && l.rank != rankPrivate:
			return fmt.Errorf("%q after core", l.name)
		}
		seen[l.rank] = true
	}
	if !seen[rankCore] && !seen[rankPU] {
		return fmt.Errorf("neither core nor pu")
	}
	return nil
}

// factsOf returns the facts that a kernel would report for such a machine.
func factsOf(levels []level) *facts {
	total := levels[len(levels)-1].total
	sockets, nodes, l3s, cores := 1, 1, 0, total
	for _, l := range levels {
		switch l.rank {
		case rankPackage:
			sockets = l.total
		case rankNUMA:
			nodes = l.total
		case rankL3:
			l3s = l.total
		case rankCore:
			cores = l.total
		}
	}
	threads := total / cores
	// block returns the CPUs of the i-th of n equal groups: adjacent cores with all of their threads.
	block := func(n, i int) (s cpuset.Set) {
		size := cores / n
		for t := range threads {
			s = s.Union(cpuset.Range(t*cores+i*size, t*cores+(i+1)*size-1))
		}
		return s
	}
	f := &facts{online: cpuset.Range(0, total-1), cpus: make([]cpuFacts, total)}
	for id := range f.cpus {
		core := id % cores
		c := &f.cpus[id]
		c.id, c.node = id, -1
		c.core = claim{core % (cores / sockets), block(cores, core)}
		c.socket = claim{core / (cores / sockets), block(sockets, core/(cores/sockets))}
		if l3s > 0 {
			c.l3 = claim{core / (cores / l3s), block(l3s, core/(cores/l3s))}
		}
	}
	for i := range nodes {
		n := nodeFacts{id: i, cpus: block(nodes, i), distances: slices.Repeat([]int{otherSocketDistance}, nodes)}
		for j := range nodes {
			if i*sockets/nodes == j*sockets/nodes && nodes >= sockets {
				n.distances[j] = sameSocketDistance
			}
		}
		n.distances[i] = localDistance
		f.nodes = append(f.nodes, n)
		f.distanceTo = append(f.distanceTo, i)
	}
	return f
}
