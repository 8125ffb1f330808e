package advise

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Target is a list of bounds that an outcome must meet.
type Target []bound

// A bound requires that a quantity of an outcome is below a limit.
type bound struct {
	text  string // the bound as in ParseTarget
	value func(Outcome) float64
	limit float64
}

// quantities maps the name of a quantity to its value in an outcome. Delays are in seconds.
var quantities = map[string]func(Outcome) float64{
	"throttled": func(o Outcome) float64 { return o.Throttled },
	"delay-p50": func(o Outcome) float64 { return o.P50.Seconds() },
	"delay-p99": func(o Outcome) float64 { return o.P99.Seconds() },
}

// ParseTarget parses bounds separated by commas, such as "throttled<1%,delay-p99<5ms".
func ParseTarget(text string) (Target, error) {
	var t Target
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(part, "<")
		quantity := quantities[name]
		limit, err := parseBound(name, value)
		if !found || quantity == nil || err != nil || !(limit > 0) || math.IsInf(limit, 1) {
			return nil, fmt.Errorf("target %.60q: must be throttled<1%%, delay-p50<1ms or delay-p99<5ms, or several by comma", part)
		}
		t = append(t, bound{part, quantity, limit})
	}
	return t, nil
}

func parseBound(name, value string) (float64, error) {
	if name == "throttled" {
		percent, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
		return percent / 100, err
	}
	d, err := time.ParseDuration(value)
	return d.Seconds(), err
}

// String formats the target as ParseTarget reads it.
func (t Target) String() string {
	var parts []string
	for _, b := range t {
		parts = append(parts, b.text)
	}
	return strings.Join(parts, ",")
}

// shortRecording returns a text about the first bound that the recording is too short to verify, or "" if there is no such
// bound. works is the number of steps with work. A throttled share below 1/n needs n periods with work, and a 99th
// percentile needs 100 works.
func (t Target) shortRecording(o Outcome, works int) string {
	for _, b := range t {
		n, unit, needed := float64(works), "pieces of work", 100.
		if name, _, _ := strings.Cut(b.text, "<"); name == "throttled" {
			n, unit, needed = float64(o.Periods), "periods with work", 1/b.limit
		} else if name == "delay-p50" {
			continue
		}
		if n < needed {
			return fmt.Sprintf("%s needs at least %.0f %s, and it has %.0f. Record for longer", b.text, math.Ceil(needed), unit, n)
		}
	}
	return ""
}

// IsMetBy reports whether an outcome meets all bounds.
func (t Target) IsMetBy(o Outcome) bool { return t.excess(o) == 0 }

// excess returns the distance of an outcome from the target. The distance is 0 if the outcome meets the target. Otherwise
// it is the largest ratio of a quantity to its limit, or MaxFloat64 if some work was not done.
func (t Target) excess(o Outcome) float64 {
	if o.Unmet {
		return math.MaxFloat64
	}
	worst := 0.0
	for _, b := range t {
		if v := b.value(o); v >= b.limit {
			worst = max(worst, v/b.limit)
		}
	}
	return worst
}
