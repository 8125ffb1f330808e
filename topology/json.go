package topology

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/candor-project/candor/cpuset"
)

// The JSON form of a machine. A CPU set is a string in the kernel's list format. The names and the meaning
// of the fields are stable; later versions can add fields.
type (
	machineJSON struct {
		Online   cpuset.Set   `json:"online"`
		Offline  cpuset.Set   `json:"offline"`
		Isolated cpuset.Set   `json:"isolated"`
		HasL3    bool         `json:"hasL3"` // false: the kernel reports no L3, and l3s repeats the nodes
		Sockets  []domainJSON `json:"sockets"`
		Nodes    []nodeJSON   `json:"nodes"`
		L3s      []domainJSON `json:"l3s"`
		Cores    []domainJSON `json:"cores"`
		Kinds    []kindJSON   `json:"kinds"` // absent in the output of older versions
		CPUs     []cpuJSON    `json:"cpus"`
	}
	domainJSON struct {
		ID   int        `json:"id"` // -1: the kernel does not report the number
		CPUs cpuset.Set `json:"cpus"`
	}
	kindJSON struct {
		Name string     `json:"name,omitempty"`
		CPUs cpuset.Set `json:"cpus"`
	}
	nodeJSON struct {
		ID        int        `json:"id"`
		CPUs      cpuset.Set `json:"cpus"`
		Distances []int      `json:"distances"`        // distance to each node, in the order of nodes
		Memory    []int      `json:"memory,omitempty"` // absent: exactly the listed nodes have memory, or memory is unknown
	}
	cpuJSON struct {
		ID       int  `json:"id"`
		Online   bool `json:"online"`
		Socket   int  `json:"socket"` // index into sockets, -1 if offline
		Node     int  `json:"node"`
		L3       int  `json:"l3"`
		Core     int  `json:"core"`
		Capacity int  `json:"capacity,omitempty"`
		MaxKHz   int  `json:"maxKHz,omitempty"`
	}
)

// Document is the JSON form of a Machine.
type Document = machineJSON

// MarshalJSON encodes a machine as JSON:
//
//	{"online":"0-3","offline":"","isolated":"","hasL3":true,
//	 "sockets":[{"id":0,"cpus":"0-3"}],
//	 "nodes":[{"id":0,"cpus":"0-3","distances":[10]}],
//	 "l3s":[{"id":0,"cpus":"0-3"}],
//	 "cores":[{"id":0,"cpus":"0,2"},{"id":1,"cpus":"1,3"}],
//	 "kinds":[],
//	 "cpus":[{"id":0,"online":true,"socket":0,"node":0,"l3":0,"core":0,"maxKHz":3500000},…]}
//
// The fields have the meaning of the fields of Machine. A CPU's socket, node, l3 and core are indexes
// into the lists.
func (m *Machine) MarshalJSON() ([]byte, error) {
	j := machineJSON{
		Online: m.Online, Offline: m.Offline, Isolated: m.Isolated, HasL3: m.HasL3,
		Sockets: make([]domainJSON, len(m.Sockets)), Nodes: make([]nodeJSON, len(m.Nodes)),
		L3s: make([]domainJSON, len(m.L3s)), Cores: make([]domainJSON, len(m.Cores)),
		Kinds: make([]kindJSON, len(m.Kinds)), CPUs: make([]cpuJSON, len(m.CPUs)),
	}
	for i, s := range m.Sockets {
		j.Sockets[i] = domainJSON(s)
	}
	for i, n := range m.Nodes {
		j.Nodes[i] = nodeJSON(n)
	}
	for i, d := range m.L3s {
		j.L3s[i] = domainJSON(d)
	}
	for i, d := range m.Cores {
		j.Cores[i] = domainJSON(d)
	}
	for i, k := range m.Kinds {
		j.Kinds[i] = kindJSON(k)
	}
	for i, c := range m.CPUs {
		j.CPUs[i] = cpuJSON(c)
	}
	return json.Marshal(j)
}

// UnmarshalJSON decodes the output of MarshalJSON. Unknown fields and an invalid machine are errors. If the kinds of
// cores are absent, as in the output of older versions, UnmarshalJSON derives them (KindsBySpeed).
func (m *Machine) UnmarshalJSON(text []byte) error {
	var j machineJSON
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return fmt.Errorf("machine: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("machine: more than one JSON value")
	}
	decoded := Machine{Online: j.Online, Offline: j.Offline, Isolated: j.Isolated, HasL3: j.HasL3}
	for _, s := range j.Sockets {
		decoded.Sockets = append(decoded.Sockets, Socket(s))
	}
	for _, n := range j.Nodes {
		decoded.Nodes = append(decoded.Nodes, NUMANode(n))
	}
	for _, l := range j.L3s {
		decoded.L3s = append(decoded.L3s, Domain(l))
	}
	for _, c := range j.Cores {
		decoded.Cores = append(decoded.Cores, Domain(c))
	}
	for _, k := range j.Kinds {
		decoded.Kinds = append(decoded.Kinds, Kind(k))
	}
	for _, c := range j.CPUs {
		decoded.CPUs = append(decoded.CPUs, CPU(c))
	}
	if err := decoded.Validate(); err != nil {
		return fmt.Errorf("machine: %w", err)
	}
	if j.Kinds == nil {
		decoded.Kinds = decoded.KindsBySpeed()
	}
	*m = decoded
	return nil
}
