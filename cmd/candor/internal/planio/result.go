package planio

import (
	"io"
	"strconv"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/jsonout"
)

// A Result is the result of an operation. Scripts depend on its JSON form, which docs/reference/plan.md describes field by field.
type Result struct {
	Op string `json:"op"`
	ID string `json:"id"`
	OK bool   `json:"ok"`

	// Fields of a refused operation:
	Error  string `json:"error,omitempty"` // no-capacity, view-impossible, id-taken, id-unknown, bad-request
	Reason string `json:"reason,omitempty"`

	// Fields of an applied operation:
	Grant   *Grant   `json:"grant,omitempty"` // nil for a release
	Changes []Change `json:"changes,omitzero"`
	*State           // state of the node after the operation
	Explain []Step   `json:"explain,omitzero"`
}

// A Grant is the grant of the operation's container after the operation.
type Grant struct {
	CPUs      cpuset.Set `json:"cpus"`
	Exclusive cpuset.Set `json:"exclusive"`
	Fractions Fractions  `json:"fractionsMilli,omitzero"` // absent for a flexible container
	Quota     int64      `json:"quotaMilli,omitempty"`    // absent without a quota
}

// A Change holds the new CPUs of another container whose CPUs the operation changes. For a flexible container, only CPUs is set.
type Change struct {
	ID        string      `json:"id"`
	CPUs      cpuset.Set  `json:"cpus"`
	Exclusive *cpuset.Set `json:"exclusive,omitempty"`
	Fractions Fractions   `json:"fractionsMilli,omitzero"`

	before cpuset.Set // CPUs before the operation, for Lines
}

// State is the state of a node.
type State struct {
	Pools          Pools `json:"pools"`
	SharedMilli    int64 `json:"sharedMilli"`         // CPU time of sensitive containers on CPUs in several cpusets
	SensitiveMilli int64 `json:"totalSensitiveMilli"` // sum of the limits of sensitive containers
}

// Pools are the CPUs of a node; each usable CPU is in exactly one pool.
type Pools struct {
	Exclusive  cpuset.Set `json:"exclusive"`
	Fractional cpuset.Set `json:"fractional"`
	Shared     cpuset.Set `json:"shared"`
}

// A Step is a decision of a plan.
type Step struct {
	Kind string     `json:"kind"`
	CPUs cpuset.Set `json:"cpus"`
	Text string     `json:"text"`
}

// Fractions are the fractions of a container. Their JSON form is an object that maps CPU IDs to milli-CPU. Fractions is nil for a
// flexible container and absent from its JSON form; it is empty for a sensitive container without fractions.
type Fractions []hybrid.Fraction

// MarshalJSON writes {"3":500}.
func (f Fractions) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, part := range f {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = strconv.AppendInt(b, int64(part.CPU), 10)
		b = append(b, '"', ':')
		b = strconv.AppendInt(b, int64(part.Milli), 10)
	}
	return append(b, '}'), nil
}

// fractions copies the fractions of a grant, because the next plan overwrites the slice.
func fractions(g *hybrid.Grant) Fractions {
	if g.Class == hybrid.Flexible {
		return nil
	}
	return append(Fractions{}, g.Fractions...)
}

func newGrant(g *hybrid.Grant) *Grant {
	grant := &Grant{CPUs: g.CPUs, Fractions: fractions(g), Quota: int64(g.Quota)}
	if g.Class == hybrid.Sensitive {
		grant.Exclusive = g.Exclusive
	}
	return grant
}

// changes returns the changes of the other containers whose CPUs change. The list is never nil.
func changes(others []hybrid.Change) []Change {
	list := []Change{}
	for i := range others {
		before, after := &others[i].Before, &others[i].After
		if sameCPUs(before, after) {
			continue
		}
		c := Change{ID: after.ID, CPUs: after.CPUs, Fractions: fractions(after), before: before.CPUs}
		if after.Class == hybrid.Sensitive {
			exclusive := after.Exclusive
			c.Exclusive = &exclusive
		}
		list = append(list, c)
	}
	return list
}

// sameCPUs reports whether two grants have the same CPUs and the same fractions.
func sameCPUs(a, b *hybrid.Grant) bool {
	if a.CPUs != b.CPUs || a.Exclusive != b.Exclusive || len(a.Fractions) != len(b.Fractions) {
		return false
	}
	for i := range a.Fractions {
		if a.Fractions[i] != b.Fractions[i] {
			return false
		}
	}
	return true
}

func explain(steps []hybrid.Step) []Step {
	list := make([]Step, 0, len(steps))
	for _, s := range steps {
		list = append(list, Step(s))
	}
	return list
}

// state returns the current state of the session's node.
func (s *Session) state() *State {
	p := s.Node.Pools()
	return &State{
		Pools:          Pools{p.Exclusive, p.Fractional, p.Shared},
		SharedMilli:    int64(s.Node.Shared()),
		SensitiveMilli: int64(s.Node.Sensitive()),
	}
}

// WriteJSON writes a result as a line, with a single call of Write.
func (r *Result) WriteJSON(w io.Writer) error { return jsonout.WriteLine(w, r) }
