package hybrid

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/candor-project/candor/cpuset"
)

// Errors of the package, for use with errors.Is. The planning methods return an error as Refusal.Kind, with
// details in the Refusal. Commit returns ErrStalePlan.
var (
	ErrNoCapacity     = errors.New("no capacity")         // the node has too little CPU time
	ErrViewImpossible = errors.New("view impossible")     // enough CPU time, but not the CPUs for the view or the topology policy
	ErrUnknownID      = errors.New("id unknown")          // no container has the id
	ErrIDTaken        = errors.New("id taken")            // a container of the node has the id
	ErrBadRequest     = errors.New("bad request")         // invalid limit, guarantee, class, policy or topology policy
	ErrStalePlan      = errors.New("plan is out of date") // the node has changed after the plan
)

// A Refusal is the error of a refused request, with the figures behind the decision. Reason returns these
// figures as text. Kind is an error of the list above, and errors.Is finds it.
type Refusal struct {
	ID    string
	Name  string // name of the container in the text of the error; "": the ID
	Kind  error
	Cause Cause
	Text  string // CauseOther: the reason

	// The figures for the other causes. A field whose comment names no cause can be set for several causes.
	Wanted    Milli          // requested CPU time; for a resize, the new limit or guarantee
	Remaining Milli          // CauseTime: remaining CPU time
	Capacity  Milli          // CauseTime: CPU time of the usable CPUs
	Promised  Milli          // CauseTime: sum of the limits of the other sensitive containers
	Flexible  Milli          // CauseTime and CauseFlexible: sum of the guarantees of flexible containers
	MinShared Milli          // CauseTime: Options.MinShared
	Whole     int            // whole CPUs that the container lacks
	Fraction  Milli          // fraction that the container lacks
	Free      cpuset.Set     // shared CPUs available to the container
	Room      Milli          // largest room on a fractional CPU
	Domain    int            // CauseTopology: highest number of available CPUs in a domain
	Topology  TopologyPolicy // CauseTopology: the container's topology policy
	Threads   int            // CauseTopology with whole-cores: CPUs per core, if they do not divide the view; otherwise 0
	Partial   int            // CauseTopology with whole-cores: CPUs on cores with a reserved, isolated or offline CPU
}

// A Cause is the resource that a refused container lacks.
type Cause uint8

// Causes of a refusal.
const (
	CauseOther    Cause = iota // Refusal.Text has the reason
	CauseTime                  // CPU time: the sum of limits and guarantees would exceed the usable CPUs
	CauseWhole                 // whole CPUs: too few CPUs are free of sensitive containers
	CauseFraction              // room for the fraction on a single CPU
	CauseTopology              // a domain, or whole cores, that the topology policy requires
	CauseFlexible              // room for the flexible containers
)

var causeNames = []string{"refused", "no-time", "no-whole-cpus", "no-fraction", "no-domain", "flexible-need"}

// String returns the name of the cause, which Refusal.Explain uses as Step.Kind.
func (c Cause) String() string { return nameOf(c, causeNames) }

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s: %v: %s", cmp.Or(r.Name, r.ID), r.Kind, r.Reason())
}

func (r *Refusal) Unwrap() error { return r.Kind }

// Explain returns the refusal as a single step. The step has the CPUs that are available to the container.
func (r *Refusal) Explain() []Step {
	return []Step{{r.Cause.String(), r.Free, r.Reason()}}
}

// Reason returns the reason for the refusal as a single line.
func (r *Refusal) Reason() string {
	switch r.Cause {
	case CauseTime:
		return r.explainTime()
	case CauseWhole:
		return fmt.Sprintf("needs %s; %s free of sensitive containers", r.describeMissing(), cpusWithVerb(r.Free.Count()))
	case CauseFraction:
		return fmt.Sprintf("needs %s; %s free of sensitive containers, and the largest room on a fractional CPU is %dm",
			r.describeMissing(), cpusWithVerb(r.Free.Count()), r.Room)
	case CauseTopology:
		return r.explainDomain()
	case CauseFlexible:
		if r.Flexible == 0 && r.Whole == 0 && r.Fraction == 0 {
			return "needs a shared or fractional CPU, and the node has none"
		}
		if r.Flexible == 0 {
			return fmt.Sprintf("needs %s; the last CPU of the flexible containers must remain", r.describeMissing())
		}
		return fmt.Sprintf("needs %s; the remaining CPUs have no room for the flexible containers, which are guaranteed %s",
			r.describeMissing(), cpuTime(r.Flexible))
	default:
		return r.Text
	}
}

func (r *Refusal) explainTime() string {
	reason := fmt.Sprintf("needs %s, %s of %s are left (sensitive containers have %s, flexible ones are guaranteed %s",
		cpuTime(r.Wanted), r.Remaining, cpuTime(r.Capacity), r.Promised, r.Flexible)
	if r.MinShared > 0 {
		reason += fmt.Sprintf(", %s stays shared", r.MinShared)
	}
	return reason + ")"
}

func (r *Refusal) explainDomain() string {
	switch r.Topology {
	case WholeCores:
		return fmt.Sprintf("needs %s; topology policy whole-cores takes whole cores, and %s", r.describeMissing(), r.explainCores())
	case SingleL3:
		return fmt.Sprintf("needs %s; topology policy single-l3 needs a single L3 domain in a NUMA node, and the best one has %s", r.describeMissing(), plural(r.Domain, "whole CPU"))
	default:
		return fmt.Sprintf("needs %s; topology policy single-numa needs a single NUMA node, and the best one has %s", r.describeMissing(), plural(r.Domain, "whole CPU"))
	}
}

// explainCores returns a clause about the cores that a container with the topology policy whole-cores lacks.
func (r *Refusal) explainCores() string {
	if r.Threads > 0 {
		return fmt.Sprintf("%s not a multiple of %d threads per core", cpusWithVerb(r.Wanted.CPUs()), r.Threads)
	}
	clause := cpusWithVerb(r.Domain) + " on free whole cores"
	if r.Partial > 0 {
		clause += fmt.Sprintf("; %s on cores with a reserved, isolated or offline CPU", cpusWithVerb(r.Partial))
	}
	return clause
}

// describeMissing returns a phrase about the missing whole CPUs and the missing fraction.
func (r *Refusal) describeMissing() string {
	switch {
	case r.Whole == 0 && r.Fraction == 0:
		return cpuTime(r.Wanted)
	case r.Fraction == 0:
		return plural(r.Whole, "whole CPU")
	case r.Whole == 0:
		return fmt.Sprintf("a fraction of %dm", r.Fraction)
	default:
		return fmt.Sprintf("%s and a fraction of %dm", plural(r.Whole, "whole CPU"), r.Fraction)
	}
}

// cpuTime formats an amount with a unit, such as "1500m of CPU time", "1 CPU" or "2 CPUs".
func cpuTime(m Milli) string {
	if m%1000 != 0 {
		return m.String() + " of CPU time"
	}
	return plural(int(m/1000), "CPU")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// cpusWithVerb returns a number of CPUs and the verb "is" or "are".
func cpusWithVerb(n int) string {
	if n == 1 {
		return "1 CPU is"
	}
	return plural(n, "CPU") + " are"
}

// checkRequest returns a refusal if a request is invalid or its id is taken.
func (n *Node) checkRequest(r *Request) *Refusal {
	if r.ID == "" {
		return badRequest(r.ID, "the id is empty")
	}
	if _, taken := n.byID[r.ID]; taken && r.hasKnownValues() {
		return &Refusal{ID: r.ID, Kind: ErrIDTaken, Text: "a container with this id is on the node"}
	}
	return r.check()
}

// check returns a refusal if a request has unknown values or invalid amounts. It does not check the id.
func (r *Request) check() *Refusal {
	if !r.hasKnownValues() {
		return badRequest(r.ID, "class %v, policy %v or topology %v: unknown value", r.Class, r.Policy, r.Topology)
	}
	return r.checkAmounts()
}

// hasKnownValues reports whether the class, policy and topology policy have defined values.
func (r *Request) hasKnownValues() bool {
	return int(r.Class) < len(classNames) && int(r.Policy) < len(policyNames) && int(r.Topology) < len(topologyNames)
}

// checkAmounts returns a refusal if the limit or the guarantee is invalid.
func (r *Request) checkAmounts() *Refusal {
	switch {
	case r.Limit == 0 && r.Class == Sensitive:
		return badRequest(r.ID, "a sensitive container needs a limit: its view is as large as that")
	case r.Limit != 0 && (r.Limit < MinLimit || r.Limit > MaxLimit):
		return badRequest(r.ID, "limit %dm: must be %dm to %s", r.Limit, MinLimit, cpuTime(MaxLimit))
	case r.Class == Sensitive && r.Guarantee != 0 && r.Guarantee != r.Limit:
		return badRequest(r.ID, "a sensitive container is guaranteed its limit, %s, not %s", r.Limit, r.Guarantee)
	case r.Guarantee < NoGuarantee || r.Guarantee > MaxLimit:
		return badRequest(r.ID, "guarantee %dm: must be 0 to %s", r.Guarantee, cpuTime(MaxLimit))
	case r.Limit > 0 && r.Guarantee > r.Limit:
		return badRequest(r.ID, "guarantee %s is above the limit %s", r.Guarantee, r.Limit)
	}
	return nil
}

// badRequest returns a refusal of an invalid request.
func badRequest(id, format string, args ...any) *Refusal {
	return &Refusal{ID: id, Kind: ErrBadRequest, Text: fmt.Sprintf(format, args...)}
}

func (n *Node) unknownID(id string) error {
	return &Refusal{ID: id, Kind: ErrUnknownID, Text: "no container with this id is on the node"}
}

// refusalFor returns the Refusal for a slot's request. The request must be in the node's sums (addToSums), and the
// slot must have its CPUs from before the operation.
func (n *Node) refusalFor(s int32, kind error) error {
	request := n.slots[s].request()
	r := &Refusal{ID: request.ID, Kind: kind, Topology: request.Topology, Wanted: request.Guaranteed(), Flexible: n.flexible.need}
	if errors.Is(kind, ErrNoCapacity) && n.lacksTime(r, &request) {
		r.Cause = CauseTime
		return r
	}
	r.Free = n.available()
	if request.Topology == WholeCores {
		r.Partial = n.partial.Count()
	}
	if request.Class == Flexible {
		r.Flexible -= r.Wanted
		r.Cause = CauseFlexible
		if n.slots[s].domain != wholeNode || request.Topology.isDomain() {
			r.Cause, r.Domain = CauseTopology, n.maxFree(request.Topology, &r.Free, &cpuset.Set{})
		}
		return r
	}
	n.lacksCPUs(r, s)
	return r
}

// lacksTime reports whether CPU time is lacking for a request, and sets the figures. The request is in the node's sums
// already.
func (n *Node) lacksTime(r *Refusal, request *Request) bool {
	r.Capacity, r.MinShared = n.capacity(), n.options.MinShared
	r.Promised = n.sensitive
	if request.Class == Sensitive {
		r.Promised -= r.Wanted
		r.Remaining = r.Capacity - r.Promised - max(r.Flexible, r.MinShared)
	} else {
		r.Flexible -= r.Wanted
		r.Remaining = r.Capacity - r.Promised - r.Flexible
	}
	if r.Wanted > r.Remaining {
		r.Remaining = max(r.Remaining, 0)
		return true
	}
	*r = Refusal{ID: r.ID, Kind: r.Kind, Topology: r.Topology, Wanted: r.Wanted, Flexible: n.flexible.need}
	return false
}

// lacksCPUs sets the cause and the figures for a sensitive container that lacks CPUs.
func (n *Node) lacksCPUs(r *Refusal, s int32) {
	slot := &n.slots[s]
	r.Whole = max(0, int(slot.Limit/1000)-slot.exclusive.Count())
	r.Fraction = slot.Limit % 1000
	for cpu := n.fractional.First(); cpu >= 0; cpu = n.fractional.Next(cpu + 1) {
		r.Room = max(r.Room, n.load[cpu].room())
	}
	free := r.Free.Count()
	isConfined := slot.Topology.isDomain() && slot.Policy == Strict
	if isConfined {
		heldCPUs := slot.exclusive.Set()
		r.Domain = n.maxFree(slot.Topology, &r.Free, &heldCPUs)
	}
	if threads := n.threadsPerCore(&r.Free); isConfined && slot.Topology == WholeCores && slot.Limit.CPUs()%threads > 0 {
		r.Threads = threads
	}
	switch {
	case isConfined && (r.Domain < free || r.Threads > 0):
		r.Cause = CauseTopology
	case r.Whole > free:
		r.Cause = CauseWhole
	case r.Fraction > 0 && r.Whole == free && r.Room < r.Fraction:
		r.Cause = CauseFraction
	case isConfined:
		r.Cause = CauseTopology
	default:
		r.Cause = CauseFlexible
	}
}

// threadsPerCore returns how many CPUs a whole core has. It inspects the free whole cores or, if no whole core is free, all whole
// cores. If the cores have different numbers of CPUs, it returns the greatest common divisor. The result is at least 1.
func (n *Node) threadsPerCore(free *cpuset.Set) int {
	inAny, inFree := 0, 0
	whole := n.wholeCores.Set().Intersect(*free)
	for i := range n.cores {
		core := &n.cores[i]
		if core.IsEmpty() || n.partial.Overlaps(core) {
			continue
		}
		size := len(n.siblings[i])
		inAny = gcd(inAny, size)
		if core.SubsetOf(&whole) {
			inFree = gcd(inFree, size)
		}
	}
	return max(1, cmp.Or(inFree, inAny))
}

// gcd returns the greatest common divisor of two numbers; gcd(0, b) is b.
func gcd(a, b int) int {
	for a > 0 {
		a, b = b%a, a
	}
	return b
}

// isDomain reports whether a topology policy confines a container to a domain.
func (w TopologyPolicy) isDomain() bool { return w == SingleNUMA || w == SingleL3 || w == WholeCores }

// maxFree counts the CPUs of the set free in each domain of the policy's kind, and returns the highest count. If heldCPUs is not empty,
// only the domain of these CPUs counts.
func (n *Node) maxFree(policy TopologyPolicy, free, heldCPUs *cpuset.Set) int {
	domains := n.numas
	switch policy {
	case SingleL3:
		domains = n.l3s
	case WholeCores:
		return n.wholeCores.CountIn(free)
	}
	count := 0
	for i := range domains {
		if heldCPUs.SubsetOf(&domains[i]) {
			count = max(count, free.CountIn(&domains[i]))
		}
	}
	return count
}
