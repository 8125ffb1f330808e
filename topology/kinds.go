package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// A Kind is a set of online CPUs whose cores are of the same kind, such as the performance cores of a chip.
type Kind struct {
	Name string // Performance, Efficiency, LowPower, or "" if the kernel does not name the kind
	CPUs cpuset.Set
}

// Names of kinds of cores. The kernel has a list of CPUs for each of them on x86 chips with several kinds.
const (
	Performance = "performance" // /sys/devices/cpu_core
	Efficiency  = "efficiency"  // /sys/devices/cpu_atom
	LowPower    = "low-power"   // /sys/devices/cpu_lowpower
)

// kindLists are the files with the CPUs of each kind, the fastest kind first.
var kindLists = [...]struct{ file, name string }{
	{"sys/devices/cpu_core/cpus", Performance},
	{"sys/devices/cpu_atom/cpus", Efficiency},
	{"sys/devices/cpu_lowpower/cpus", LowPower},
}

// readKinds reads the kernel's lists of the CPUs of each kind. ok is false if the lists are unusable: a list cannot be
// read or is malformed, two lists overlap, or the lists do not contain all online CPUs. This is not an error, because
// the kinds then follow from the speeds (KindsBySpeed). kinds is nil if all online CPUs are in a single list.
func (t *fileReader) readKinds(online *cpuset.Set) (kinds []Kind, ok bool) {
	var listed cpuset.Set
	for _, list := range kindLists {
		cpus, _, err := t.readList(list.file)
		if cpus = cpus.Intersect(*online); err != nil || cpus.Overlaps(&listed) {
			return nil, false
		}
		listed.AddAll(&cpus)
		if !cpus.IsEmpty() {
			kinds = append(kinds, Kind{list.name, cpus})
		}
	}
	if listed != *online {
		return nil, false
	}
	if len(kinds) < 2 {
		kinds = nil
	}
	return kinds, true
}

// KindsBySpeed derives the kinds of cores from the speeds of the CPUs: their capacities or, if the kernel reports no
// capacity, their maximum frequencies. The fastest kind comes first. The result is nil if all cores are of one kind.
//
// In descending order of speed, a kind begins at a core
//
//   - whose capacity is more than 10 % below the capacity of the core before. Clusters of equal cores differ by a
//     few percent, and different cores by more.
//   - whose maximum frequency is at least 20 % and more than 500 MHz below the frequency of the core before. Favored
//     cores (turbo boost max 3.0, preferred cores) differ from the other cores of their kind by less.
//
// The frequency is the last resort. It cannot distinguish kinds of cores with similar frequencies, as on many chips
// since Arrow Lake.
//
// A core without a speed never forms a kind. It belongs to the kind with the most CPUs.
func (m *Machine) KindsBySpeed() []Kind {
	hasCapacity := slices.ContainsFunc(m.CPUs, func(c CPU) bool { return c.Online && c.Capacity > 0 })
	type fastCore struct {
		cpus  cpuset.Set
		speed int // the highest speed of the core's CPUs
	}
	cores := make([]fastCore, len(m.Cores))
	for i := range m.Cores {
		cores[i].cpus = m.Cores[i].CPUs
		for id := range m.Cores[i].CPUs.All() {
			cores[i].speed = max(cores[i].speed, m.CPU(id).speed(hasCapacity))
		}
	}
	slices.SortStableFunc(cores, func(a, b fastCore) int { return cmp.Compare(b.speed, a.speed) })
	var kinds []Kind
	var unknown cpuset.Set
	for i := range cores {
		c := &cores[i]
		switch {
		case c.speed == 0:
			unknown.AddAll(&c.cpus)
		case i == 0 || isSlower(c.speed, cores[i-1].speed, hasCapacity):
			kinds = append(kinds, Kind{CPUs: c.cpus})
		default:
			kinds[len(kinds)-1].CPUs.AddAll(&c.cpus)
		}
	}
	if len(kinds) < 2 {
		return nil
	}
	largest := slices.MaxFunc(kinds, func(a, b Kind) int { return cmp.Compare(a.CPUs.Count(), b.CPUs.Count()) })
	for i := range kinds {
		if kinds[i] == largest {
			kinds[i].CPUs.AddAll(&unknown)
		}
	}
	return kinds
}

// speed returns the capacity or the maximum frequency of a CPU; 0 if unknown.
func (c *CPU) speed(byCapacity bool) int {
	if byCapacity {
		return c.Capacity
	}
	return c.MaxKHz
}

// isSlower reports whether a speed is so much below another speed that the CPUs are of different kinds (KindsBySpeed).
func isSlower(speed, than int, isCapacity bool) bool {
	if isCapacity {
		return int64(speed)*10 < int64(than)*9
	}
	return int64(speed)*5 <= int64(than)*4 && than-speed > 500_000
}

// SlowCPUs compares the L3 domains of each kind of core. It returns the CPUs that are more than 5 % slower than the CPUs of the same kind
// in another domain, such as the E cores outside of the L3 cache on Meteor Lake. The result is empty if all cores are of one kind.
func (m *Machine) SlowCPUs() (slow cpuset.Set) {
	for i := range m.Kinds {
		fastest := m.speedOf(&m.Kinds[i].CPUs)
		for j := range m.L3s {
			part := m.L3s[j].CPUs.Intersect(m.Kinds[i].CPUs)
			s := m.speedOf(&part)
			speed, best := s.maxKHz.high, fastest.maxKHz.high
			if fastest.capacity.high > 0 {
				speed, best = s.capacity.high, fastest.capacity.high
			}
			if speed > 0 && int64(speed)*20 < int64(best)*19 {
				slow.AddAll(&part)
			}
		}
	}
	return slow
}

// KindOf returns the index of a CPU's kind in Kinds; 0 if all cores are of one kind or the CPU is in no kind.
func (m *Machine) KindOf(cpu int) int {
	return max(0, slices.IndexFunc(m.Kinds, func(k Kind) bool { return k.CPUs.Contains(cpu) }))
}

// DescribeKind returns a phrase for the cores of Kinds[i], such as "P cores" or "cores (capacity 446)".
func (m *Machine) DescribeKind(i int) string {
	k := &m.Kinds[i]
	if k.Name != "" {
		return kindPrefix(k.Name) + "cores"
	}
	if s := m.speedOf(&k.CPUs).String(); s != "" {
		return "cores (" + s + ")"
	}
	return "cores of kind " + strconv.Itoa(i)
}

// kindPrefix returns the letters before the word "core", such as "P ", or "" for a kind without a name.
func kindPrefix(name string) string {
	switch name {
	case "":
		return ""
	case Performance:
		return "P "
	case Efficiency:
		return "E "
	case LowPower:
		return "LP-E "
	default:
		return name + " "
	}
}

// DescribeCores returns the number of cores, such as "8 cores". On a machine with several kinds of cores, the text also describes the
// kinds: "24 cores (8 P, 16 E)" or "8 cores of 2 kinds".
func (m *Machine) DescribeCores() string {
	total := plural(len(m.Cores), "core")
	if len(m.Kinds) == 0 {
		return total
	}
	counts := make([]int, len(m.Kinds))
	for i := range m.Cores {
		counts[m.KindOf(m.Cores[i].CPUs.First())]++
	}
	parts := make([]string, len(counts))
	for i, n := range counts {
		name := kindPrefix(m.Kinds[i].Name)
		if name == "" {
			return fmt.Sprintf("%s of %d kinds", total, len(counts))
		}
		parts[i] = strconv.Itoa(n) + " " + strings.TrimSpace(name)
	}
	return total + " (" + strings.Join(parts, ", ") + ")"
}

// PartialCores returns the online CPUs of the cores that have an offline CPU. The kernel does not list the offline
// CPUs of a core, so PartialCores infers them. On a machine with offline CPUs, a core is partial if another core of its kind has more
// online CPUs. If SMT is off, each core has a single online CPU, and no core is partial.
func (m *Machine) PartialCores() (partial cpuset.Set) {
	if m.Offline.IsEmpty() {
		return partial
	}
	threads := make([]int, max(1, len(m.Kinds))) // maximum number of online CPUs on a core, by kind
	for i := range m.Cores {
		kind := m.KindOf(m.Cores[i].CPUs.First())
		threads[kind] = max(threads[kind], m.Cores[i].CPUs.Count())
	}
	for i := range m.Cores {
		if cpus := &m.Cores[i].CPUs; cpus.Count() < threads[m.KindOf(cpus.First())] {
			partial.AddAll(cpus)
		}
	}
	return partial
}
