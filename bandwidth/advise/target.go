package advise

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Target is a list of bounds that a setting must meet.
type Target []bound

type bound struct {
	text  string
	value func(Outcome) float64
	limit float64
}

// quantities are the quantities that a bound can limit. Delays are in seconds.
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

// shortRecording describes a bound on a share that the recording is too short to verify. With n periods or n pieces of
// work, the smallest share above 0 is 1/n. It returns "" if the recording suffices for all bounds.
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

// Met reports whether an outcome is within all bounds.
func (t Target) Met(o Outcome) bool { return t.excess(o) == 0 }

// excess returns the distance of an outcome from the target. It is 0 if the outcome meets the target, else the
// largest ratio to a bound. With unfinished work it is larger than any ratio.
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
