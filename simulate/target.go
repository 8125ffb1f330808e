package simulate

import (
	"fmt"
	"strconv"
	"strings"
)

// A Target is the target of a cell, such as "s<5%,r=0".
type Target struct {
	text  string
	terms []term
}

// A term is an upper bound on a figure.
type term struct {
	name  string
	below bool // strictly
	bound float64
}

// figures are the figures that a target can bound: shares of 1.
var figures = map[string]func(*Result) float64{
	"s":       func(r *Result) float64 { return r.S },
	"r":       func(r *Result) float64 { return r.R },
	"refused": func(r *Result) float64 { return ratio(float64(r.RefusedCapacity), float64(r.Submitted+r.Resubmitted)) },
	"load":    func(r *Result) float64 { return r.Load },
}

const targetForm = "must be bounds such as s<5%,r=0, of s, r, refused (for lack of room) and load, by <, <= or = 0"

// ParseTarget reads a target. Unless it bounds the refusals for lack of room,
// there may be none: a cell without machines would have no shared time.
func ParseTarget(text string) (Target, error) {
	t := Target{text: text}
	roomNamed := false
	for part := range strings.SplitSeq(text, ",") {
		m, err := parseTerm(strings.TrimSpace(part))
		if err != nil {
			return Target{}, fmt.Errorf("target %q: %w", text, err)
		}
		roomNamed = roomNamed || m.name == "refused"
		t.terms = append(t.terms, m)
	}
	if !roomNamed {
		t.text += ",refused=0"
		t.terms = append(t.terms, term{name: "refused"})
	}
	return t, nil
}

func parseTerm(part string) (term, error) {
	at := strings.IndexAny(part, "<=")
	if at < 0 || figures[part[:at]] == nil {
		return term{}, fmt.Errorf("%q: %s", part, targetForm)
	}
	m := term{name: part[:at]}
	value, isLess := strings.CutPrefix(part[at:], "<")
	value, isEqual := strings.CutPrefix(value, "=")
	m.below = isLess && !isEqual
	digits, isPercent := strings.CutSuffix(value, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if isPercent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) || !isLess && v != 0 || m.below && v == 0 {
		return term{}, fmt.Errorf("%q: %s", part, targetForm)
	}
	m.bound = v
	return m, nil
}

// String returns the text of the target.
func (t Target) String() string { return t.text }

// Meets reports whether a result meets the target.
func (t Target) Meets(r *Result) bool {
	for _, m := range t.terms {
		if v := figures[m.name](r); v > m.bound || m.below && v == m.bound {
			return false
		}
	}
	return true
}

// missed reports whether a running replay can no longer meet the target.
func (t Target) missed(r *Result) bool {
	for _, m := range t.terms {
		if m.bound == 0 && (m.name == "r" && r.RefusedView > 0 || m.name == "refused" && r.RefusedCapacity > 0) {
			return true
		}
	}
	return false
}
