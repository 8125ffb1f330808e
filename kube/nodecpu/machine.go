package nodecpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

// reportedMachine converts a machine to the format of a report. It omits the kernel's IDs of sockets, L3 domains and cores.
func reportedMachine(m *topology.Machine) v1alpha1.Machine {
	t := v1alpha1.Machine{
		Description: m.Description(),
		Online:      m.Online.String(), Offline: m.Offline.String(), Isolated: m.Isolated.String(),
		Speeds: reportedSpeeds(m),
	}
	var sockets, l3s, cores []string
	for i := range m.Sockets {
		sockets = append(sockets, m.Sockets[i].CPUs.String())
	}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		told := v1alpha1.NUMANode{ID: int32(n.ID), CPUs: n.CPUs.String()}
		for _, d := range n.Distances {
			told.Distances = append(told.Distances, int32(d))
		}
		t.NUMANodes = append(t.NUMANodes, told)
	}
	for i := range m.L3s {
		l3s = append(l3s, m.L3s[i].CPUs.String())
	}
	for i := range m.Cores {
		if m.Cores[i].CPUs.Count() > 1 {
			cores = append(cores, m.Cores[i].CPUs.String())
		}
	}
	t.Sockets, t.Cores = strings.Join(sockets, " "), strings.Join(cores, " ")
	if m.HasL3 {
		t.L3s = strings.Join(l3s, " ")
	}
	return t
}

// machineOf converts the machine of a report to a topology.Machine, and validates it. It derives the kinds of cores from the speeds; these
// kinds have no names.
func machineOf(t *v1alpha1.Machine) (*topology.Machine, error) {
	m := &topology.Machine{HasL3: t.L3s != ""}
	for _, list := range []struct {
		name, text string
		to         *cpuset.Set
	}{{"online", t.Online, &m.Online}, {"offline", t.Offline, &m.Offline}, {"isolated", t.Isolated, &m.Isolated}} {
		set, err := cpuset.Parse(list.text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list.name, err)
		}
		*list.to = set
	}
	sockets, err := domainsOf(t.Sockets)
	if err != nil {
		return nil, fmt.Errorf("sockets: %w", err)
	}
	for i, d := range sockets {
		m.Sockets = append(m.Sockets, topology.Socket{ID: i, CPUs: d.CPUs})
	}
	if m.L3s, err = domainsOf(t.L3s); err != nil {
		return nil, fmt.Errorf("l3s: %w", err)
	}
	if m.Cores, err = coresOf(t.Cores, m.Online); err != nil {
		return nil, fmt.Errorf("cores: %w", err)
	}
	if err := addNodes(m, t.NUMANodes); err != nil {
		return nil, err
	}
	if err := addCPUs(m, t.Speeds); err != nil {
		return nil, fmt.Errorf("speeds: %w", err)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	m.Kinds = m.KindsBySpeed()
	return m, nil
}

// domainsOf parses CPU sets separated by blanks, and sorts them by their first CPUs, as in a topology.Machine.
func domainsOf(text string) (domains []topology.Domain, err error) {
	words := strings.Fields(text)
	if len(words) > cpuset.Max {
		return nil, fmt.Errorf("%d sets of CPUs: the maximum is %d", len(words), cpuset.Max)
	}
	for _, word := range words {
		cpus, err := cpuset.Parse(word)
		if err != nil {
			return nil, err
		}
		domains = append(domains, topology.Domain{ID: -1, CPUs: cpus})
	}
	sortDomains(domains)
	return domains, nil
}

func sortDomains(domains []topology.Domain) {
	slices.SortFunc(domains, func(a, b topology.Domain) int { return a.CPUs.First() - b.CPUs.First() })
}

// coresOf parses the cores, and adds the cores with a single CPU, which a report omits.
func coresOf(text string, online cpuset.Set) ([]topology.Domain, error) {
	cores, err := domainsOf(text)
	if err != nil {
		return nil, err
	}
	for i := range cores {
		online.RemoveAll(&cores[i].CPUs)
	}
	for cpu := range online.All() {
		cores = append(cores, topology.Domain{ID: -1, CPUs: cpuset.Of(cpu)})
	}
	sortDomains(cores)
	return cores, nil
}

// addNodes adds the NUMA nodes. On a machine without L3 caches, it also adds an L3 domain for each NUMA node.
func addNodes(m *topology.Machine, told []v1alpha1.NUMANode) error {
	if len(told) > cpuset.Max {
		return fmt.Errorf("%d NUMA nodes: the maximum is %d", len(told), cpuset.Max)
	}
	for i := range told {
		cpus, err := cpuset.Parse(told[i].CPUs)
		if err != nil {
			return fmt.Errorf("NUMA node %d: %w", told[i].ID, err)
		}
		n := topology.NUMANode{ID: int(told[i].ID), CPUs: cpus}
		for _, d := range told[i].Distances {
			if d > maxDistance {
				return fmt.Errorf("NUMA node %d: distance %d: the maximum is %d", n.ID, d, maxDistance)
			}
			n.Distances = append(n.Distances, int(d))
		}
		m.Nodes = append(m.Nodes, n)
		if !m.HasL3 {
			m.L3s = append(m.L3s, topology.Domain{ID: n.ID, CPUs: cpus})
		}
	}
	return nil
}

// maxDistance bounds the distance between NUMA nodes. Firmware stores a distance in a byte.
const maxDistance = 255

// addCPUs adds the CPUs, each with the indexes of its socket, NUMA node, L3 domain and core. A missing index is -1, which Validate rejects.
func addCPUs(m *topology.Machine, speeds string) error {
	for cpu := range m.Online.Union(m.Offline).All() {
		m.CPUs = append(m.CPUs, topology.CPU{ID: cpu, Online: m.Online.Contains(cpu), Socket: -1, Node: -1, L3: -1, Core: -1})
	}
	place := func(cpus cpuset.Set, set func(*topology.CPU)) {
		for cpu := range cpus.Intersect(m.Online).All() {
			set(m.CPU(cpu))
		}
	}
	for i := range m.Sockets {
		place(m.Sockets[i].CPUs, func(c *topology.CPU) { c.Socket = i })
	}
	for i := range m.Nodes {
		place(m.Nodes[i].CPUs, func(c *topology.CPU) { c.Node = i })
	}
	for i := range m.L3s {
		place(m.L3s[i].CPUs, func(c *topology.CPU) { c.L3 = i })
	}
	for i := range m.Cores {
		place(m.Cores[i].CPUs, func(c *topology.CPU) { c.Core = i })
	}
	return eachSpeed(speeds, func(cpus cpuset.Set, speed int) {
		place(cpus, func(c *topology.CPU) {
			if speed > topSpeed { // agents of older versions report frequencies in kHz
				c.MaxKHz = speed
			} else {
				c.Capacity = speed
			}
		})
	})
}

// topSpeed is the speed of the fastest kind of cores in a report. Each further kind has half the speed of the kind
// before it. Schedulers of older versions, too, separate kinds that differ this much.
const topSpeed = 1024

// reportedSpeeds formats a speed for the CPUs of each kind of cores, such as "0-15:1024 16-23:512", or returns "" if all
// cores are of one kind. The speeds only order the kinds. The slow CPUs of a kind (topology.Machine.SlowCPUs) have nine
// tenths of its speed, so that they remain of this kind.
func reportedSpeeds(m *topology.Machine) string {
	var told []string
	add := func(cpus cpuset.Set, speed int) {
		if !cpus.IsEmpty() {
			told = append(told, cpus.String()+":"+strconv.Itoa(speed))
		}
	}
	slow := m.SlowCPUs()
	for i := range m.Kinds {
		speed := max(1, topSpeed>>i)
		add(m.Kinds[i].CPUs.Minus(slow), speed)
		add(m.Kinds[i].CPUs.Intersect(slow), (speed*9+9)/10)
	}
	return strings.Join(told, " ")
}

// eachSpeed parses the output of reportedSpeeds, and calls a function for each set of CPUs.
func eachSpeed(text string, do func(cpus cpuset.Set, speed int)) error {
	words := strings.Fields(text)
	if len(words) > cpuset.Max {
		return fmt.Errorf("%d values: the maximum is %d", len(words), cpuset.Max)
	}
	for _, word := range words {
		list, digits, _ := strings.Cut(word, ":")
		cpus, err := cpuset.Parse(list)
		if err != nil {
			return err
		}
		speed, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || speed < 0 {
			return fmt.Errorf("%.60q: must be CPUs and a number, such as 0-3:1024", word)
		}
		do(cpus, int(speed))
	}
	return nil
}
