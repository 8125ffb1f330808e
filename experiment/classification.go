package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/interference"
)

// A Classification decides whether an application is sensitive, by the method of Bacou et al. (SCC 2019, section IV-C).
// For each workload and each limit, it compares runs with only a quota to runs in a cpuset of the same size. In the paper the
// number of runs is fixed. A Classification stops when Decide has a verdict with a bounded error probability.
type Classification struct {
	Workloads []NamedWorkload
	Limits    []hybrid.Milli // milli-CPU
	Metric    string         // metric to compare, which each workload has; "time": the wall time
	Margin    float64        // gain above which an evaluation is Sensitive: 0.05 for 5 %
	Seed      uint64

	// Progress, if not nil, is called before each pair with the evaluation, its index and the number of evaluations.
	Progress func(Evaluation, int, int)
}

// A NamedWorkload is a workload with a name, such as a way to use the application.
type NamedWorkload struct {
	Name string
	Workload
}

// DefaultMargin is the gain above which the paper (see Classification) calls a workload sensitive.
const DefaultMargin = 0.05

// A Class is the result of a classification.
type Class struct {
	Partial     bool         `json:"partial,omitempty"` // the context ended before the classification
	Class       Verdict      `json:"class"`             // Undecided if the undecided evaluations could change it
	Decided     bool         `json:"decided"`           // Class is not Undecided
	Evaluations []Evaluation `json:"evaluations"`
	Probe       *Prediction  `json:"probe,omitempty"` // second opinion, if requested; it does not change Class
	// Interference describes the other processes that used the CPUs of the measurement. It is nil if they used at most 10 % of these
	// CPUs.
	Interference *interference.Report `json:"interference,omitempty"`
}

// An Evaluation compares quota and cpuset for a workload under a limit. Its verdict is a vote on the class.
type Evaluation struct {
	Workload string       `json:"workload"`
	Limit    hybrid.Milli `json:"limitMilli"`
	Verdict  Verdict      `json:"verdict,omitempty"`
	Pairs    int          `json:"pairs"`
	Ratio    float64      `json:"ratio"`             // gain by the cpuset: typical ratio of the pairs; above 1: the cpuset is better
	Interval Interval     `json:"ci,omitzero"`       // 95 % interval of Ratio; absent with fewer than six pairs
	Failed   int          `json:"failed"`            // pairs with a failed run
	Why      string       `json:"why,omitempty"`     // reason of the first failure, or why the evaluation cannot vote
	Skipped  bool         `json:"skipped,omitempty"` // the evaluation cannot vote
	Runs     []Run        `json:"runs,omitempty"`    // setup 0 is the quota, setup 1 the cpuset
	gains    []float64
}

// maxFailed is the number of failed pairs after which an evaluation stops.
const maxFailed = 5

// ErrNoVote means that no evaluation of a classification can vote.
var ErrNoVote = errors.New("cannot classify")

// Check reports the first invalid field of a classification.
func (c *Classification) Check() error {
	switch {
	case len(c.Workloads) == 0:
		return fmt.Errorf("%w: none", ErrBadWorkload)
	case len(c.Limits) == 0:
		return fmt.Errorf("%w: no limit", ErrBadSetup)
	case !(c.Margin >= 0 && c.Margin <= 1):
		return fmt.Errorf("%w: margin %g: must be 0 to 1", ErrBadWorkload, c.Margin)
	}
	for _, limit := range c.Limits {
		if limit < hybrid.MinLimit || limit > hybrid.MaxLimit {
			return fmt.Errorf("%w: limit %v: must be %v to %v", ErrBadSetup, limit, hybrid.MinLimit, hybrid.MaxLimit)
		}
	}
	for i, limit := range c.Limits {
		if slices.Contains(c.Limits[:i], limit) {
			return fmt.Errorf("%w: duplicate limit %v", ErrBadSetup, limit)
		}
	}
	for i := range c.Workloads {
		w := &c.Workloads[i]
		if slices.ContainsFunc(c.Workloads[:i], func(other NamedWorkload) bool { return other.Name == w.Name }) {
			return fmt.Errorf("%w: duplicate name %q", ErrBadWorkload, w.Name)
		}
		e := Experiment{Workload: w.Workload, Setups: []Setup{{Kind: Quota, Limit: c.Limits[0]}}, Rounds: 2}
		if err := e.Check(); err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
	}
	return nil
}

// ErrFailing means that runs of a program failed, so that a classification or a prediction lacks data.
var ErrFailing = errors.New("runs fail")

// Run runs the classification. If the context ends first, Run returns the context's error. If too many runs of an
// evaluation fail, it returns ErrFailing. In both cases it also returns the class by the results so far.
func (c *Classification) Run(ctx context.Context, l *Lab) (*Class, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	class := &Class{}
	voters := 0
	for _, limit := range c.Limits {
		for i := range c.Workloads {
			e := Evaluation{Workload: c.Workloads[i].Name, Limit: limit}
			if limit.CPUs() >= l.usable.Count() {
				e.Skipped = true
				e.Why = fmt.Sprintf("the machine has %d CPUs: quota and cpuset show the same number", l.usable.Count())
			} else {
				voters++
			}
			class.Evaluations = append(class.Evaluations, e)
		}
	}
	if voters == 0 {
		return nil, fmt.Errorf("%w: %s; use a limit of %d CPUs or less", ErrNoVote, class.Evaluations[0].Why, l.usable.Count()-1)
	}
	var err error
	l.startWatch()
	defer func() { class.Interference = l.interference() }()
	for i := range class.Evaluations {
		if e := &class.Evaluations[i]; !e.Skipped {
			if err = c.evaluate(ctx, l, e, i); err != nil {
				break
			}
		}
	}
	class.vote()
	class.Partial = errors.Is(err, context.Canceled)
	for i := range class.Evaluations {
		if e := &class.Evaluations[i]; e.Failed >= maxFailed && err == nil {
			err = fmt.Errorf("%w: %s at %v: %s", ErrFailing, e.Workload, e.Limit, e.Why)
		}
	}
	return class, err
}

// vote sets the class. The class is sensitive if more than half of the evaluations that can vote are sensitive, and flexible if no
// result of the undecided evaluations could make it sensitive. Otherwise it is undecided.
func (c *Class) vote() {
	sensitive, undecided, voters := 0, 0, 0
	for i := range c.Evaluations {
		e := &c.Evaluations[i]
		if e.Skipped {
			continue
		}
		voters++
		switch e.Verdict {
		case Sensitive:
			sensitive++
		case Flexible:
		default:
			undecided++
		}
	}
	switch {
	case 2*sensitive > voters:
		c.Class = Sensitive
	case 2*(sensitive+undecided) <= voters:
		c.Class = Flexible
	default:
		c.Class = Undecided
	}
	c.Decided = c.Class != Undecided
}

// evaluate runs pairs of quota and cpuset until Decide needs no more pairs, or until maxFailed pairs have failed.
func (c *Classification) evaluate(ctx context.Context, l *Lab, e *Evaluation, number int) error {
	w := &c.Workloads[number%len(c.Workloads)].Workload
	setups := []Setup{{Kind: Quota, Limit: e.Limit}, {Kind: Cpuset, Limit: e.Limit}}
	e.Verdict = Undecided
	order := Order(len(setups), Looks[len(Looks)-1]+maxFailed+1, c.Seed+uint64(number))
	for round := -1; ; round++ { // the first pair warms up
		if c.Progress != nil {
			c.Progress(*e, number, len(c.Workloads)*len(c.Limits))
		}
		pair := make([]Run, len(setups))
		for _, at := range order[round+1] {
			runs, err := l.run(ctx, w, &setups[at])
			if err != nil {
				return err
			}
			pair[at] = runs[0]
			pair[at].Setup, pair[at].Round = at, round
		}
		e.Runs = append(e.Runs, pair...)
		if round < 0 {
			continue
		}
		if more := e.add(pair, c.better(w), c.Margin, c.Metric); !more {
			return nil
		}
	}
}

// better returns 1 if lower values of the metric to compare are better, else -1.
func (c *Classification) better(w *Workload) float64 {
	for i := range w.Metrics {
		if w.Metrics[i].Name == c.Metric && w.Metrics[i].HigherIsBetter {
			return -1
		}
	}
	return 1
}

// add adds a pair to an evaluation and reports whether the evaluation needs more pairs.
func (e *Evaluation) add(pair []Run, better, margin float64, metric string) (more bool) {
	for i := range pair {
		why := pair[i].Failure
		if why == "" && pair[i].Values[metric] <= 0 {
			why = fmt.Sprintf("metric %q is %g: must be above 0 for a ratio", metric, pair[i].Values[metric])
		}
		if why == "" {
			continue
		}
		if e.Failed++; e.Failed == 1 {
			e.Why = why
		}
		return e.Failed < maxFailed
	}
	e.gains = append(e.gains, better*math.Log(pair[0].Values[metric]/pair[1].Values[metric]))
	e.Verdict, e.Pairs, more = Decide(e.gains, math.Log(1+margin))
	e.Ratio, e.Interval = math.Exp(HodgesLehmann(e.gains)), ratioInterval(e.gains)
	return more
}
