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

// A SyntaxError reports an invalid machine description.
type SyntaxError struct {
	Description string
	Reason      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf(`description %q: %s; use levels from the largest to the smallest, such as "pack:2 numa:2 l3:2 core:4 pu:2"`,
		shorten(e.Description), e.Reason)
}

// Parse builds a machine from hwloc's synthetic notation: a list of levels from the largest to the smallest. The number after a
// level is the number of its objects in each object of the previous level. For example, "pack:2 numa:2 l3:2 core:4 pu:2" has 2
// sockets, 2 NUMA nodes per socket, 2 L3 domains per node, 4 cores per L3 domain and 2 CPUs per core. These are 64 CPUs.
//
// The levels are package (or socket), numanode (or node), l3, core and pu. The levels machine, group, die, l1, l2, l4 and l5 only multiply
// the number of objects in the levels after them. A name can be abbreviated to two or more letters, in upper or lower case. Parse accepts
// the NUMA nodes of hwloc 2, too: "pack:2 [numa] core:4" has a node in each object of the previous level.
//
// The package level can precede or follow the numa level. The level pu must be last, and core must come after all
// levels except pu, l1 and l2. Without pu, a core has a single CPU. Without core, each CPU is a core. Without package
// or numa, there is a single socket or node. Without l3, the machine has no L3. Parse ignores attributes such as
// "(memory=16GB)", except for "indexes=", which is an error.
//
// Unlike in hwloc, the CPUs are numbered as on most Linux machines: the first CPU of each core, then the second CPU of each core.
// All CPUs are online. Distances are 10 (local), 12 (same socket) and 21 (otherwise). Errors are of type *SyntaxError.
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

// A rank is the kind of a level.
type rank uint8

const (
	rankOther rank = iota // multiplies the count, and is larger than a core
	rankPackage
	rankNUMA
	rankL3
	rankCore
	rankPrivate // l1, l2: multiplies the count, before or after core
	rankPU
)

// A level is a level of a description, such as "core:4".
type level struct {
	rank  rank
	name  string // as in the description
	count int    // count in each object of the previous level
	total int    // count on the machine
}

// levelNames are the names of hwloc. Two or more letters of a name suffice. rankOf handles the names of caches.
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

// rankOf returns the rank of the level with this name.
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

// parseLevels parses the levels of a description without checking their order.
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

// parseLevel parses the first level of s, and returns the rest of s.
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
	if n < 1 || n > cpuset.Max { // n is the maximum of uint64 if ParseUint reports a number out of range
		return l, "", fmt.Errorf("%q has %s: must be 1 to %d CPUs in all", l.name, shorten(digits), cpuset.Max)
	}
	l.count = int(n)
	if strings.HasPrefix(rest, "(") {
		rest, err = skipAttributes(rest)
	}
	return l, rest, err
}

// skipAttributes skips attributes such as "(memory=16GB …)" at the start of s, and returns the rest of s.
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

// skipMemory skips a NUMA node such as "[numa(memory=16GB)]" at the start of s, and returns the rest of s.
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

// factsOf returns the facts that a kernel would report for the machine.
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
	// block divides the machine into n groups of adjacent cores, and returns the CPUs of the i-th group.
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
