package simulate

import (
	"fmt"
	"strconv"
	"strings"
)

// A Target is a condition on the result of a point, such as "s<5%,r=0". All terms must hold.
type Target struct {
	text  string
	terms []term
}

// A term is an upper bound on a figure of the result.
type term struct {
	name     string
	isStrict bool // the figure must be below the bound, not equal
	bound    float64
}

// figures are the figures that a target can bound. All are shares from 0 to 1.
var figures = map[string]func(*Result) float64{
	"s":       func(r *Result) float64 { return r.S },
	"r":       func(r *Result) float64 { return r.R },
	"refused": func(r *Result) float64 { return ratio(float64(r.RefusedCapacity), float64(r.Submitted+r.Resubmitted)) },
	"load":    func(r *Result) float64 { return r.Load },
}

const targetSyntax = "must be bounds such as s<5%,r=0, of s, r, refused (for lack of room) and load, by <, <= or = 0"

// ParseTarget parses a target. Unless the target bounds the refusals for lack of room, ParseTarget adds refused=0, because otherwise a cell
// without machines, which has no shared time, would meet the target.
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
	i := strings.IndexAny(part, "<=")
	if i < 0 || figures[part[:i]] == nil {
		return term{}, fmt.Errorf("%q: %s", part, targetSyntax)
	}
	m := term{name: part[:i]}
	value, isLess := strings.CutPrefix(part[i:], "<")
	value, isEqual := strings.CutPrefix(value, "=")
	m.isStrict = isLess && !isEqual
	digits, isPercent := strings.CutSuffix(value, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if isPercent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) || !isLess && v != 0 || m.isStrict && v == 0 {
		return term{}, fmt.Errorf("%q: %s", part, targetSyntax)
	}
	m.bound = v
	return m, nil
}

// String returns the text of the target.
func (t Target) String() string { return t.text }

// Meets reports whether a result meets the target.
func (t Target) Meets(r *Result) bool {
	for _, m := range t.terms {
		if v := figures[m.name](r); v > m.bound || m.isStrict && v == m.bound {
			return false
		}
	}
	return true
}

// cannotMeet reports whether a running replay has a refusal that the target excludes by a bound of 0.
func (t Target) cannotMeet(r *Result) bool {
	for _, m := range t.terms {
		if m.bound == 0 && (m.name == "r" && r.RefusedView > 0 || m.name == "refused" && r.RefusedCapacity > 0) {
			return true
		}
	}
	return false
}
