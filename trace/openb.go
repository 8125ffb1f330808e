package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

var (
	openbNodes = strings.Split("sn,cpu_milli,memory_mib,gpu,model", ",")
	openbPods  = strings.Split("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time", ",")
)

// Columns of openb's pods.
const (
	openbName = iota
	openbCPU
	openbMemory
	openbGPUs
	openbGPUMilli
	openbGPUSpec
	openbQoS
	openbPhase
	openbCreated
	openbDeleted
	openbScheduled
)

// openbClasses are the QoS classes of the pods. LS means latency-sensitive; Guaranteed pods count as latency-sensitive, too.
var openbClasses = []Class{{"BE", false}, {"LS", true}, {"Burstable", false}, {"Guaranteed", true}}

// An openb reads the trace of Alibaba's GPU cluster of 2023.
type openb struct {
	unsorted
	submits bool
	names   map[string]bool // names of the nodes, and later of the pods, that were read
}

// openOpenb opens a directory with the files of openb. The option pods is the variant of the pod list: "default", or for example "cpu300".
func openOpenb(s spec, o Options) (Reader, error) {
	variant, given := s.options["pods"]
	if !given {
		variant = "default"
	}
	if variant == "" || variant != filepath.Base(variant) {
		return nil, fmt.Errorf("%w %q: pods %q: must be default or a variant such as cpu300", ErrSpec, s.text, variant)
	}
	nodes, err := openMaybeZipped(filepath.Join(s.path, "openb_node_list_all_node.csv"))
	if err != nil {
		return nil, err
	}
	defer nodes.close() //nolint:errcheck // the file is only read
	pods, err := openMaybeZipped(filepath.Join(s.path, "openb_pod_list_"+variant+".csv"))
	if err != nil {
		return nil, err
	}
	defer pods.close() //nolint:errcheck // the file is only read
	return newOpenb(s, o, nodes, pods)
}

// openMaybeZipped opens a table, or the gzip file of the table if the table does not exist.
func openMaybeZipped(path string) (*table, error) {
	t, err := openTable(path)
	if errors.Is(err, fs.ErrNotExist) {
		if zipped, zippedErr := openTable(path + ".gz"); !errors.Is(zippedErr, fs.ErrNotExist) {
			return zipped, zippedErr
		}
	}
	return t, err
}

func newOpenb(s spec, o Options, nodes, pods *table) (Reader, error) {
	r := &openb{submits: s.submits}
	r.lenient = o.Lenient
	r.header = Header{Name: "openb", Source: s.text, Unit: Milli, Classes: openbClasses}
	var machines []Event
	r.names = map[string]bool{}
	err := r.readTable(nodes, openbNodes, func() error { return r.addNode(nodes, &machines) })
	if err != nil {
		return nil, err
	}
	r.names = map[string]bool{}
	if err := r.readTable(pods, openbPods, func() error { return r.addPod(pods) }); err != nil {
		return nil, err
	}
	r.arrange(machines)
	return r, nil
}

// readTable checks the column names in the first row of a table, and calls the function row for each following row.
func (r *openb) readTable(t *table, columns []string, row func() error) error {
	if err := t.columns(columns); err != nil {
		return err
	}
	return r.rows(t, len(columns), row)
}

// addNode adds the machine of the current row.
func (r *openb) addNode(t *table, machines *[]Event) error {
	if err := r.checkUnique(t, "machine added twice"); err != nil {
		return err
	}
	c, err := openbCapacity(t)
	if err != nil {
		return err
	}
	r.addCapacity(c)
	*machines = append(*machines, Event{Kind: MachineAdd, Machine: uint32(len(*machines)), CPU: c.cpu, Memory: c.memory, Flags: AtStart})
	return nil
}

// openbCapacity reads CPU and memory, which are in the same columns for nodes and pods.
func openbCapacity(t *table) (capacity, error) {
	cpu, okCPU := parseUint(t.fields[openbCPU])
	memory, okMemory := parseUint(t.fields[openbMemory])
	switch {
	case !okCPU || !fitsInt32(cpu):
		return capacity{}, t.rowError("CPU", "%q: must be whole milli-CPU", shorten(t.fields[openbCPU]))
	case !okMemory || !fitsInt32(memory):
		return capacity{}, t.rowError("memory", "%q: must be whole MiB", shorten(t.fields[openbMemory]))
	}
	return capacity{int32(cpu), int32(memory)}, nil
}

// checkUnique returns an error if the name in the current row was read before.
func (r *openb) checkUnique(t *table, what string) error {
	name := t.fields[openbName]
	if r.names[string(name)] {
		return t.rowError(what, "%q", shorten(name))
	}
	r.names[string(name)] = true
	return nil
}

// addPod adds the lifetime of the pod in the current row.
func (r *openb) addPod(t *table) error {
	if err := r.checkUnique(t, "pod listed twice"); err != nil {
		return err
	}
	c, err := openbCapacity(t)
	if err != nil {
		return err
	}
	if err := r.checkFits(c, t); err != nil {
		return err
	}
	class := slices.IndexFunc(openbClasses, func(c Class) bool { return c.Name == string(t.fields[openbQoS]) })
	if class < 0 {
		return t.rowError("qos", "%q: must be BE, LS, Burstable or Guaranteed", shorten(t.fields[openbQoS]))
	}
	life, err := r.readLife(t)
	if err != nil || life == nil {
		return err
	}
	if !bytes.Equal(t.fields[openbGPUs], []byte("0")) {
		r.notes.add("GPUs that pods ask for", t.place())
	}
	life.Job, life.Class = JobNumber(t.fields[openbName]), uint8(class)
	life.CPU, life.Memory = c.cpu, c.memory
	r.lives = append(r.lives, *life)
	return nil
}

// readLife reads the start and the end of a pod. If r.submits is false, it returns nil for a pod that never started.
func (r *openb) readLife(t *table) (*lifetime, error) {
	start, reason := openbScheduled, Finished
	switch phase := string(t.fields[openbPhase]); phase {
	case "Running", "Succeeded":
	case "Failed":
		reason = Failed
	case "Pending":
		reason = Killed
	default:
		return nil, t.rowError("pod_phase", "%q: must be Pending, Running, Succeeded or Failed", shorten(t.fields[openbPhase]))
	}
	if r.submits {
		start = openbCreated
	} else if len(t.fields[start]) == 0 {
		r.notes.add("pods that never started", t.place())
		return nil, nil
	}
	var seconds [2]uint64
	for i, column := range []int{start, openbDeleted} {
		s, ok := parseUint(t.fields[column])
		if !ok || s > 1e12 {
			return nil, t.rowError(openbPods[column], "%q: must be seconds", shorten(t.fields[column]))
		}
		seconds[i] = s
	}
	if seconds[1] < seconds[0] {
		return nil, t.rowError("events out of order", "deleted at %d, started at %d", seconds[1], seconds[0])
	}
	return &lifetime{Event: Event{Time: Micros(seconds[0]) * Second}, until: Micros(seconds[1]) * Second, reason: reason}, nil
}
