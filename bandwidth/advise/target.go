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
			return nil, fmt.Errorf("target %.60q: must be throttled<1%%, delay-p50<1ms or delay-p99<5ms, or several, separated by commas", part)
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

// A Shortage describes a recording that is too short to verify a bound of a target.
//
// A bound allows a share p of the windows with work to exceed a value: p is 1 % for throttled<1% and for delay-p99, and one half for
// delay-p50. If none of n independent windows exceeds the value, the bound holds with a confidence of 1-(1-p)^n. For a confidence of 95 %
// and p = 1 %, n must be at least 299. A window is a period of the setting, and at least 100 ms long, because the work of adjacent shorter
// windows mostly belongs to the same burst.
type Shortage struct {
	Bound        string // as in ParseTarget
	Needed, Have int    // number of windows with work
	Window       time.Duration
	Length       time.Duration // length of a recording with the needed windows, at the rate of this recording
}

// confidence is the confidence with which a recording can verify a bound.
const confidence = 0.95

// maxWindows bounds Shortage.Needed.
const maxWindows = 1e15

// minWindow is the minimum length of a window that counts as independent of the window before.
const minWindow = 100 * time.Millisecond

// shortage returns the bound of the target that needs the longest recording, or nil if the recording has enough windows for all bounds.
// busy is the number of windows of 100 ms with work in the recording, and span the length of the recording.
func (t Target) shortage(o Outcome, busy int, span time.Duration) *Shortage {
	var worst *Shortage
	for _, b := range t {
		s := Shortage{Bound: b.text, Needed: b.neededWindows(), Have: busy, Window: minWindow}
		if b.isPeriodic() && o.Period >= minWindow {
			s.Have, s.Window = int(o.Periods), o.Period
		}
		if s.Have >= s.Needed {
			continue
		}
		s.Length = scaled(span, float64(s.Needed)/float64(max(s.Have, 1)))
		if worst == nil || s.Length > worst.Length {
			worst = &s
		}
	}
	return worst
}

// neededWindows returns the minimum number of windows with work that a recording needs to verify the bound.
func (b *bound) neededWindows() int {
	share := 0.01
	switch b.name() {
	case "throttled":
		share = min(b.limit, 1)
	case "delay-p50":
		share = 0.5
	}
	needed := math.Ceil(math.Log(1-confidence) / math.Log1p(-share))
	return int(min(max(needed, 1), maxWindows))
}

// isPeriodic reports whether the bound is a share of periods, not of work.
func (b *bound) isPeriodic() bool { return b.name() == "throttled" }

func (b *bound) name() string {
	name, _, _ := strings.Cut(b.text, "<")
	return name
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
