package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// azureColumns are the columns of Azure's vmtable.csv. The published file has no header; the names are from the analysis published with it.
var azureColumns = strings.Split("vmid,subscriptionid,deploymentid,vmcreated,vmdeleted,maxcpu,avgcpu,p95maxcpu,vmcategory,vmcorecount,vmmemory", ",")

// Indexes of the columns that are used.
const (
	azureVM         = 0
	azureDeployment = 2
	azureCreated    = 3
	azureDeleted    = 4
	azureCategory   = 8
	azureCores      = 9
	azureMemory     = 10
)

// azureMinLife is the time between two samples of the source, and the minimum lifetime of a VM. In the source, a VM that is in a single
// sample has equal times of creation and deletion. The reader extends every shorter lifetime to azureMinLife.
const azureMinLife = 300 * Second

// azureClasses are the categories of the virtual machines.
var azureClasses = []Class{{"Delay-insensitive", false}, {"Interactive", true}, {"Unknown", false}}

// An azure reads Azure's virtual machines of 2017 (AzurePublicDatasetV1). The data contain no physical machines, so the spec gives the
// number of machines and the size of each machine.
type azure struct {
	unsorted
	vms   map[uint64]bool   // hashes of the names that were read
	tasks map[uint64]uint32 // number of VMs read so far, by deployment
	last  Micros            // time of the last sample, which is the latest deletion
}

// openAzure opens a vmtable.csv. The options machines, cores and memory (GiB) are required.
func openAzure(s spec, o Options) (Reader, error) {
	var machines, cores, memory uint64
	for _, option := range []struct {
		name string
		to   *uint64
		most uint64
	}{{"machines", &machines, 10_000_000}, {"cores", &cores, 1024}, {"memory", &memory, 1 << 20}} {
		if _, given := s.options[option.name]; !given {
			return nil, fmt.Errorf("%w %q: no %s: must be azure:FILE,machines=N,cores=N,memory=GIB", ErrSpec, s.text, option.name)
		}
		if err := s.number(option.name, option.to, 1, option.most); err != nil {
			return nil, err
		}
	}
	t, err := openTable(s.path)
	if err != nil {
		return nil, err
	}
	r, err := newAzure(s, o, t, int(machines), capacity{int32(cores * 1000), int32(memory * 1024)})
	return r, errors.Join(err, t.close())
}

func newAzure(s spec, o Options, t *table, machines int, each capacity) (Reader, error) {
	r := &azure{vms: map[uint64]bool{}, tasks: map[uint64]uint32{}}
	r.lenient = o.Lenient
	r.header = Header{Name: "azure", Source: s.text, Unit: Milli, Classes: azureClasses}
	r.addCapacity(each)
	t.whole = true
	if err := r.rows(t, len(azureColumns), func() error { return r.addVM(t) }); err != nil {
		return nil, err
	}
	for i := range r.lives { // the end of a VM that exists in the last sample is unknown
		if r.lives[i].until >= r.last {
			r.lives[i].reason = Lost
		}
	}
	there := make([]Event, machines)
	for i := range there {
		there[i] = Event{Kind: MachineAdd, Machine: uint32(i), CPU: each.cpu, Memory: each.memory, Flags: AtStart}
	}
	r.arrange(there)
	return r, nil
}

// addVM adds the virtual machine of the current row.
func (r *azure) addVM(t *table) error {
	if t.line == 1 && t.isHeading(azureColumns) { // some copies of the file have a header
		return nil
	}
	name := JobNumber(t.fields[azureVM])
	if r.vms[name] {
		return t.rowError("virtual machine listed twice", "%q", shorten(t.fields[azureVM]))
	}
	r.vms[name] = true
	life, err := r.readLife(t)
	if err != nil {
		return err
	}
	class := slices.IndexFunc(azureClasses, func(c Class) bool { return c.Name == string(t.fields[azureCategory]) })
	if class < 0 {
		return t.rowError("vmcategory", "%q: must be Delay-insensitive, Interactive or Unknown", shorten(t.fields[azureCategory]))
	}
	c, err := azureCapacity(t)
	if err != nil {
		return err
	}
	if err := r.checkFits(c, t); err != nil {
		return err
	}
	life.Job, life.Class = JobNumber(t.fields[azureDeployment]), uint8(class)
	life.Task = r.tasks[life.Job]
	r.tasks[life.Job]++
	life.CPU, life.Memory = c.cpu, c.memory
	r.lives = append(r.lives, life)
	return nil
}

// readLife reads the creation and deletion of a virtual machine.
func (r *azure) readLife(t *table) (lifetime, error) {
	var at [2]Micros
	for i, column := range []int{azureCreated, azureDeleted} {
		s, ok := parseUint(t.fields[column])
		if !ok || s > 1e12 {
			return lifetime{}, t.rowError(azureColumns[column], "%q: must be seconds", shorten(t.fields[column]))
		}
		at[i] = Micros(s) * Second
	}
	if at[1] < at[0] {
		return lifetime{}, t.rowError("events out of order", "deleted at %s, created at %s", t.fields[azureDeleted], t.fields[azureCreated])
	}
	r.last = max(r.last, at[1])
	return lifetime{Event: Event{Time: at[0], Flags: atStart(at[0])}, until: max(at[1], at[0]+azureMinLife), reason: Killed}, nil
}

// azureCapacity reads the cores and the memory. The source calls the unit of memory GB, but values such as 1.75 show that it is GiB.
func azureCapacity(t *table) (capacity, error) {
	cores, okCores := parseScaled(t.fields[azureCores], 3)
	memory, okMemory := parseScaled(t.fields[azureMemory], 6)
	switch {
	case !okCores || !fitsInt32(uint64(cores)):
		return capacity{}, t.rowError("vmcorecount", "%q: must be a number of cores such as 2", shorten(t.fields[azureCores]))
	case !okMemory || memory > 1e12:
		return capacity{}, t.rowError("vmmemory", "%q: must be GB such as 1.75", shorten(t.fields[azureMemory]))
	}
	return capacity{int32(cores), int32((memory*1024 + 999_999) / 1_000_000)}, nil
}
