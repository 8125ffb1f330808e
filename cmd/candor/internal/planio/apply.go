package planio

import (
	"errors"
	"fmt"
	"io"

	"github.com/candor-project/candor/hybrid"
)

// maxID is the maximum length of an ID in bytes. Kubernetes has the same maximum for names.
const maxID = 253

// A Session applies operations to a node, in the order of their lines.
type Session struct {
	Node    *hybrid.Node
	Policy  hybrid.Policy // default policy, for requests without a policy
	Explain bool          // results contain the steps of the plan
}

// Run applies the operations of a stream. It calls the function each with the result of an operation before it reads the next
// operation. At an invalid line, Run returns a *LineError.
func (s *Session) Run(in io.Reader, each func(Result) error) error {
	for r := NewReader(in); ; {
		op, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		result, err := s.Apply(op)
		if err != nil {
			return err
		}
		if err := each(result); err != nil {
			return err
		}
	}
}

// Apply applies an operation. If the operation is refused, the node does not change, and the result contains the reason. Only a bug
// in this program makes Apply return an error.
func (s *Session) Apply(op Op) (Result, error) {
	plan, err := s.plan(op)
	if err != nil {
		return refused(op, err, s.Explain)
	}
	result := Result{Op: op.Name, ID: op.ID, OK: true, Changes: changes(plan.Others)}
	if op.Name != "release" {
		result.Grant = newGrant(&plan.Grant)
	}
	if s.Explain {
		result.Explain = explain(plan.Explain())
	}
	if err := s.Node.Commit(plan); err != nil {
		return Result{}, fmt.Errorf("%s %s: %w", op.Name, op.ID, err)
	}
	result.State = s.state()
	return result, nil
}

// plan returns the plan of an operation. An error other than *hybrid.Refusal means an invalid value in the operation.
func (s *Session) plan(op Op) (*hybrid.Plan, error) {
	if err := op.check(); err != nil {
		return nil, err
	}
	switch op.Name {
	case "allocate":
		r, err := op.request(s.Policy)
		if err != nil {
			return nil, err
		}
		return s.Node.Plan(r)
	case "resize":
		limit, guarantee, err := s.resize(op)
		if err != nil {
			return nil, err
		}
		return s.Node.PlanResize(op.ID, limit, guarantee)
	default:
		return s.Node.PlanRelease(op.ID)
	}
}

// check returns an error if the operation has a value that is no string, or an invalid ID.
func (op *Op) check() error {
	switch {
	case op.bad != nil:
		return op.bad
	case op.ID == "":
		return errors.New("no id: must be the name of a container")
	case len(op.ID) > maxID:
		return fmt.Errorf("id of %d bytes: must be %d at most", len(op.ID), maxID)
	}
	return nil
}

// request converts the operation allocate to a request. policy is the default policy.
func (op *Op) request(policy hybrid.Policy) (hybrid.Request, error) {
	r := hybrid.Request{ID: op.ID, Policy: policy}
	if class, ok := op.values["class"]; ok {
		if err := r.Class.UnmarshalText([]byte(class)); err != nil {
			return r, err
		}
	}
	if policy, ok := op.values["policy"]; ok {
		if err := r.Policy.UnmarshalText([]byte(policy)); err != nil {
			return r, err
		}
	}
	if wish, ok := op.values["topology"]; ok {
		if err := r.Topology.UnmarshalText([]byte(wish)); err != nil {
			return r, err
		}
	}
	if _, ok := op.values["cpu"]; !ok && r.Class == hybrid.Sensitive {
		return r, errNoCPU
	}
	if _, ok := op.values["request"]; ok && r.Class == hybrid.Sensitive {
		return r, errors.New("request is for flexible containers: a sensitive one is guaranteed its cpu")
	}
	var err error
	if r.Limit, err = op.milli("cpu"); err != nil {
		return r, err
	}
	r.Guarantee, err = op.guarantee()
	return r, err
}

// resize returns the limit and the guarantee after a resize. The guarantee does not change unless the operation contains a request.
func (s *Session) resize(op Op) (limit, guarantee hybrid.Milli, err error) {
	if _, ok := op.values["cpu"]; !ok {
		return 0, 0, errNoCPU
	}
	if limit, err = op.milli("cpu"); err != nil {
		return 0, 0, err
	}
	before, known := s.Node.Grant(op.ID)
	_, asked := op.values["request"]
	switch {
	case known && asked && before.Class == hybrid.Sensitive:
		return 0, 0, fmt.Errorf("request is for flexible containers, %s is sensitive", op.ID)
	case known && !asked:
		return limit, before.Guarantee, nil
	}
	guarantee, err = op.guarantee()
	return limit, guarantee, err
}

var errNoCPU = errors.New(`no cpu: must be a number of CPUs such as "2", "1.5" or "1500m"`)

// milli returns the amount of CPU in a field; 0 if the operation does not have this field.
func (op *Op) milli(field string) (hybrid.Milli, error) {
	s, ok := op.values[field]
	if !ok {
		return 0, nil
	}
	m, err := hybrid.ParseMilli(s)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", field, err)
	}
	return m, nil
}

// guarantee returns the guarantee of a flexible container in the form of hybrid.Request.Guarantee: NoGuarantee for a request of
// 0, and 0 without a request. For a container without a limit, the two values have the same effect. They must differ because a
// later resize can set a limit.
func (op *Op) guarantee() (hybrid.Milli, error) {
	g, err := op.milli("request")
	if _, asked := op.values["request"]; asked && err == nil && g == 0 {
		return hybrid.NoGuarantee, nil
	}
	return g, err
}

// refused returns the result of an operation that failed with err. It returns an error only for a *hybrid.Refusal with an unknown
// cause.
func refused(op Op, err error, explained bool) (Result, error) {
	result := Result{Op: op.Name, ID: op.ID, Error: "bad-request", Reason: err.Error()}
	var refusal *hybrid.Refusal
	if !errors.As(err, &refusal) {
		return result, nil
	}
	result.Reason = refusal.Reason()
	if explained {
		result.Explain = explain(refusal.Explain())
	}
	switch {
	case errors.Is(err, hybrid.ErrNoCapacity):
		result.Error = "no-capacity"
	case errors.Is(err, hybrid.ErrViewImpossible):
		result.Error = "view-impossible"
	case errors.Is(err, hybrid.ErrIDTaken):
		result.Error = "id-taken"
	case errors.Is(err, hybrid.ErrUnknownID):
		result.Error = "id-unknown"
	case !errors.Is(err, hybrid.ErrBadRequest):
		return Result{}, fmt.Errorf("%s %s: %w", op.Name, op.ID, err)
	}
	return result, nil
}
