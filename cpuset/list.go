package cpuset

import (
	"fmt"
	"strconv"
	"strings"
)

// A SyntaxError reports an invalid CPU list.
type SyntaxError struct {
	List   string // the whole input
	Part   string // the invalid part of List
	Reason string
}

func (e *SyntaxError) Error() string {
	if e.Part == e.List {
		return fmt.Sprintf("CPU list %q: %s", shorten(e.List), e.Reason)
	}
	return fmt.Sprintf("CPU list %q: %q: %s", shorten(e.List), shorten(e.Part), e.Reason)
}

// shorten truncates s for error messages, because hostile input can be long.
func shorten(s string) string {
	const limit = 60
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}

// Parse parses the kernel's list format: CPU ids and ranges, separated by commas, in any order, such as
// "0-3,8,10-11". The empty string is the empty set. Parse accepts a newline at the end, because the kernel writes one.
// Spaces, signs, descending ranges, strides ("0-15:2/4") and ids above Max-1 are errors of type *SyntaxError.
func Parse(list string) (Set, error) { return parse(list, false) }

// ParsePossible parses lists that can contain offline CPUs, such as /sys/devices/system/cpu/present and
// Cpus_allowed_list of a process. Unlike Parse, it drops ids above Max-1, because firmware reserves ids for CPUs that
// never come online.
func ParsePossible(list string) (Set, error) { return parse(list, true) }

// parse parses a list. If clip is true, it drops ids above Max-1; otherwise these ids are errors.
func parse(list string, clip bool) (Set, error) {
	var s Set
	list = strings.TrimSuffix(list, "\n")
	if list == "" {
		return s, nil
	}
	for rest, more := list, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		first, last, reason := parseRange(part)
		if reason == "" && last >= Max && !clip {
			reason = "CPU ids go from 0 to " + strconv.Itoa(Max-1)
		}
		if reason != "" {
			return Set{}, &SyntaxError{list, part, reason}
		}
		for cpu := first; cpu <= min(last, Max-1); cpu++ {
			s.Add(cpu)
		}
	}
	return s, nil
}

const listSyntax = "must be CPU ids and ranges, such as 0-3,8"

// parseRange parses a part of a list: a CPU id or a range. reason is empty if the part is valid.
func parseRange(part string) (first, last int, reason string) {
	low, high, isRange := strings.Cut(part, "-")
	first, ok := parseID(low)
	last = first
	if ok && isRange {
		last, ok = parseID(high)
	}
	switch {
	case !ok:
		return 0, 0, listSyntax
	case last < first:
		return 0, 0, "a range must rise"
	}
	return first, last, ""
}

// maxID is the highest id that parseID returns. It is above the CPU ids of all kernels, because CONFIG_NR_CPUS is at
// most 8192.
const maxID = 1 << 20

// parseID parses a CPU id. It returns maxID for a higher id, so that long digit strings do not overflow.
func parseID(digits string) (id int, ok bool) {
	if digits == "" {
		return 0, false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		id = min(id*10+int(digits[i]-'0'), maxID)
	}
	return id, true
}

// MustParse is Parse for lists in source code. It panics on an invalid list.
func MustParse(list string) Set {
	s, err := Parse(list)
	if err != nil {
		panic(err)
	}
	return s
}

// String returns the set in the kernel's list format; "" for the empty set.
func (s Set) String() string { return string(s.Append(nil)) }

// Append appends the set in the kernel's list format to b.
func (s *Set) Append(b []byte) []byte {
	for lowest, first := s.First(), s.First(); first >= 0; {
		last := first
		for s.Contains(last + 1) {
			last++
		}
		if first != lowest {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(first), 10)
		if last > first {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(last), 10)
		}
		first = s.Next(last + 1)
	}
	return b
}

// MarshalText returns the set in the kernel's list format, so that a Set is a JSON string.
func (s Set) MarshalText() ([]byte, error) { return s.Append([]byte{}), nil }

// UnmarshalText parses the kernel's list format with the rules of Parse.
func (s *Set) UnmarshalText(text []byte) error {
	set, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = set
	return nil
}
