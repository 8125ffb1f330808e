package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// kubeSpan is the duration of the trace for a snapshot. The containers of the snapshot start at 0 and end at kubeSpan, so that averages
// over time are defined.
const kubeSpan = Hour

// kubeClasses are the QoS classes of pods.
var kubeClasses = []Class{{"BestEffort", false}, {"Burstable", false}, {"Guaranteed", true}}

// A kubectl reads a snapshot of a Kubernetes cluster.
type kubectl struct {
	unsorted
	submits bool
	list    *jsonList // the current list
	nodes   map[string]bool
	names   map[string]bool // names of all pods, with their namespaces
	pods    []kubePod       // pods to place
}

// openKubectl opens a directory with nodes.json and pods.json, the output of kubectl get nodes -o json and kubectl get pods -A -o json.
func openKubectl(s spec, o Options) (Reader, error) {
	var lists [2]*jsonList
	for i, name := range []string{"nodes.json", "pods.json"} {
		path := filepath.Join(s.path, name)
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		lists[i] = newJSONList(path, file)
	}
	return newKubectl(s, o, lists[0], lists[1])
}

func newKubectl(s spec, o Options, nodes, pods *jsonList) (Reader, error) {
	k := &kubectl{submits: s.submits, nodes: map[string]bool{}, names: map[string]bool{}}
	k.lenient = o.Lenient
	k.header = Header{Name: "kubectl", Source: s.text, Unit: Milli, Classes: kubeClasses}
	var machines []Event
	if err := k.read(nodes, func() error { return k.addNode(&machines) }); err != nil {
		return nil, err
	}
	if err := k.read(pods, k.addPod); err != nil {
		return nil, err
	}
	k.sortPods()
	k.arrange(machines)
	return k, nil
}

// read calls the function item for each item of a list, and skips invalid items if the reader is lenient.
func (k *kubectl) read(list *jsonList, item func() error) error {
	k.list = list
	return k.forgive(list.each(func() error {
		err := item()
		if fault := (*jsonFault)(nil); errors.As(err, &fault) {
			return err // the rest of the file is unreadable as well
		}
		return k.forgive(err)
	}))
}

// kubeResources maps names of resources to amounts.
type kubeResources map[string]string

// capacity parses the amounts of CPU and memory. round rounds memory to MiB.
func (r kubeResources) capacity(round func(float64) float64) (capacity, error) {
	cpu, ok := parseCPU([]byte(r["cpu"]))
	if !ok {
		return capacity{}, fmt.Errorf("cpu %q: must be a number of CPUs such as 2 or 1500m", shorten([]byte(r["cpu"])))
	}
	memory, ok := parseMemory([]byte(r["memory"]), round)
	if !ok {
		return capacity{}, fmt.Errorf("memory %q: must be bytes, such as 512Mi", shorten([]byte(r["memory"])))
	}
	return capacity{cpu, memory}, nil
}

// A kubeNode has the fields of a node that are read.
type kubeNode struct {
	Metadata struct{ Name string }
	Spec     struct {
		Unschedulable bool
		Taints        []json.RawMessage
	}
	Status struct{ Allocatable kubeResources }
}

// addNode reads the next node, and adds the event of its machine.
func (k *kubectl) addNode(machines *[]Event) error {
	var n kubeNode
	if err := k.list.decode(&n); err != nil {
		return err
	}
	name := n.Metadata.Name
	c, err := n.Status.Allocatable.capacity(math.Floor)
	switch {
	case name == "":
		return k.list.itemError("node without a name", "metadata.name is required")
	case k.nodes[name]:
		return k.list.itemError("machine added twice", "node %s", name)
	case err == nil && c.cpu == 0:
		err = errors.New("no CPU in status.allocatable")
		fallthrough
	case err != nil:
		return k.list.itemError("node's capacity", "node %s: %v", name, err)
	}
	if n.Spec.Unschedulable {
		k.notes.add("nodes that are cordoned", "node "+name)
	}
	if len(n.Spec.Taints) > 0 {
		k.notes.add("nodes with taints", "node "+name)
	}
	k.nodes[name] = true
	k.addCapacity(c)
	*machines = append(*machines, Event{Kind: MachineAdd, Machine: uint32(len(*machines)), CPU: c.cpu, Memory: c.memory, Flags: AtStart})
	return nil
}

// A kubePod is a pod that has not ended and has a node, or that waits for a node if kubectl.submits is set.
type kubePod struct {
	lifetime
	name     string // NAMESPACE/NAME
	owner    string
	created  time.Time
	priority int32
}

// sortPods sorts the pods by creation time, and sets their priorities, jobs and tasks. It replaces priorities by their ranks, because
// Event.Priority has 8 bits.
func (k *kubectl) sortPods() {
	slices.SortFunc(k.pods, func(a, b kubePod) int {
		if d := a.created.Compare(b.created); d != 0 {
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	priorities := []int32{0}
	for _, p := range k.pods {
		priorities = append(priorities, p.priority)
	}
	slices.Sort(priorities)
	priorities = slices.Compact(priorities)
	tasks := map[string]uint32{}
	for _, p := range k.pods {
		rank, _ := slices.BinarySearch(priorities, p.priority)
		p.Priority = uint8(min(rank, math.MaxUint8))
		p.Job, p.Task = JobNumber([]byte(p.owner)), tasks[p.owner]
		tasks[p.owner]++
		k.lives = append(k.lives, p.lifetime)
	}
	k.pods = nil
}
