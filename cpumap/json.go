package cpumap

import (
	"cmp"
	"io"
	"slices"
	"strconv"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/internal/seencpus"
)

// A Document is the JSON form of the map. Amounts are in milli-CPU, and CPU sets have the kernel's list format.
type Document struct {
	Machine    documentMachine     `json:"machine"`
	Usable     cpuset.Set          `json:"usable"`
	Reserved   cpuset.Set          `json:"reserved"`
	Pools      documentPools       `json:"pools"`
	Shared     hybrid.Milli        `json:"sharedMilli"`
	Sensitive  hybrid.Milli        `json:"totalSensitiveMilli"`
	Containers []documentContainer `json:"containers"`
	CPUs       []documentCPU       `json:"cpus"`
	Strangers  []ForeignUse        `json:"strangers"`
	LimitedBy  []GroupLimit        `json:"limitedBy"`
	ReservedBy []Reservation       `json:"reservedBy"`
	Foreign    []Foreign           `json:"foreign,omitzero"` // absent if candor did not search for them
}

type documentMachine struct {
	Sockets   int        `json:"sockets"`
	NUMANodes int        `json:"numaNodes"`
	L3Domains int        `json:"l3Domains"` // 0 if the kernel does not report them
	Cores     int        `json:"cores"`
	Online    cpuset.Set `json:"online"`
	Offline   cpuset.Set `json:"offline"`
	Isolated  cpuset.Set `json:"isolated"`
}

type documentPools struct {
	Exclusive  cpuset.Set `json:"exclusive"`
	Fractional cpuset.Set `json:"fractional"`
	Shared     cpuset.Set `json:"shared"`
}

type documentContainer struct {
	ID          string `json:"id"`
	DisplayName string `json:"name"`
	podname.Name
	Class     hybrid.Class            `json:"class"`
	Policy    hybrid.Policy           `json:"policy"`
	Topology  hybrid.TopologyPolicy   `json:"topology"`
	Limit     hybrid.Milli            `json:"limitMilli"` // 0: no limit
	CPUs      cpuset.Set              `json:"cpus"`
	Exclusive cpuset.Set              `json:"exclusive"`
	Fractions map[string]hybrid.Milli `json:"fractionsMilli,omitzero"` // absent for a flexible container
	Quota     hybrid.Milli            `json:"quotaMilli,omitempty"`    // absent without a quota
	Lost      cpuset.Set              `json:"lost"`                    // CPUs that the container had and the machine no longer has
	seencpus.Summary
}

// A documentCPU is an online CPU. Socket, NUMA node and core have the kernel's numbers.
type documentCPU struct {
	CPU       int      `json:"cpu"`
	Socket    int      `json:"socket"`
	NUMANode  int      `json:"numaNode"`
	Core      int      `json:"core"`
	Pool      string   `json:"pool"` // exclusive, fractional, shared, reserved or isolated
	Sensitive []string `json:"sensitive,omitempty"`
	Flexible  bool     `json:"flexible"` // flexible containers run here
}

// JSON writes the map as JSON.
func (m *Map) JSON(w io.Writer) error { return jsonout.Write(w, m.Document()) }

// Document returns the JSON form of the map.
func (m *Map) Document() *Document {
	machine := m.Machine
	d := &Document{
		Machine: documentMachine{len(machine.Sockets), len(machine.Nodes), 0, len(machine.Cores),
			machine.Online, machine.Offline, machine.Isolated},
		Usable:     m.Usable,
		Shared:     m.Shared,
		Containers: []documentContainer{},
		Strangers:  append([]ForeignUse{}, m.ForeignUses...),
		LimitedBy:  append([]GroupLimit{}, m.Limits...),
		ReservedBy: append([]Reservation{}, m.Reservations...),
		Foreign:    m.Foreign,
	}
	if machine.HasL3 {
		d.Machine.L3Domains = len(machine.L3s)
	}
	for i := range m.Grants {
		d.Containers = append(d.Containers, m.container(&m.Grants[i]))
		if m.Grants[i].Class == hybrid.Sensitive {
			d.Sensitive += m.Grants[i].Limit
		}
	}
	d.addCPUs(m)
	return d
}

func (m *Map) container(g *hybrid.Grant) documentContainer {
	name := m.Names[g.ID]
	c := documentContainer{ID: g.ID, DisplayName: cmp.Or(name.String(), g.ID), Name: name, Class: g.Class, Policy: g.Policy, Topology: g.Topology, Limit: g.Limit, CPUs: g.CPUs, Quota: g.Quota, Lost: g.Lost, Summary: m.sees(g)}
	if g.Class == hybrid.Flexible {
		return c
	}
	c.Exclusive = g.Exclusive
	c.Fractions = map[string]hybrid.Milli{}
	for _, f := range g.Fractions {
		c.Fractions[strconv.Itoa(f.CPU)] = f.Milli
	}
	return c
}

// addCPUs adds the online CPUs in the order of their IDs, and adds each CPU to the set of its pool.
func (d *Document) addCPUs(m *Map) {
	cells := m.cells()
	for cpu := range m.Machine.Online.All() {
		c, at := cells[cpu], m.Machine.CPU(cpu)
		out := documentCPU{
			CPU:      cpu,
			Socket:   m.Machine.Sockets[at.Socket].ID,
			NUMANode: m.Machine.Nodes[at.Node].ID,
			Core:     m.Machine.Cores[at.Core].ID,
			Pool:     c.pool.String(),
			Flexible: c.flexible,
		}
		for _, p := range c.parts {
			out.Sensitive = append(out.Sensitive, p.id)
		}
		slices.Sort(out.Sensitive)
		d.CPUs = append(d.CPUs, out)
		switch c.pool {
		case exclusive:
			d.Pools.Exclusive.Add(cpu)
		case fractional:
			d.Pools.Fractional.Add(cpu)
		case shared:
			d.Pools.Shared.Add(cpu)
		case reserved:
			d.Reserved.Add(cpu)
		}
	}
}
