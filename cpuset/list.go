package cpuset

import (
	"fmt"
	"strconv"
	"strings"
)

// A SyntaxError says which part of a CPU list cannot be read.
type SyntaxError struct {
	List   string // the whole input
	Part   string // the offending part of it
	Reason string
}

func (e *SyntaxError) Error() string {
	if e.Part == e.List {
		return fmt.Sprintf("CPU list %q: %s", shorten(e.List), e.Reason)
	}
	return fmt.Sprintf("CPU list %q: %q: %s", shorten(e.List), shorten(e.Part), e.Reason)
}

// shorten keeps error lines readable when hostile input is long.
func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// Parse reads the kernel's list format: CPU ids and ranges, separated by
// commas, in any order ("0-3,8,10-11"). The empty string is the empty set; one
// newline at the end, as the kernel writes it, is accepted. Spaces, signs,
// descending ranges, strides ("0-15:2/4") and ids above Max-1 are errors of
// type *SyntaxError.
func Parse(list string) (Set, error) {
	var s Set
	list = strings.TrimSuffix(list, "\n")
	if list == "" {
		return s, nil
	}
	for rest, more := list, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		if err := s.addPart(list, part); err != nil {
			return Set{}, err
		}
	}
	return s, nil
}

// addPart adds one CPU id or one range, a part of list.
func (s *Set) addPart(list, part string) error {
	low, high, isRange := strings.Cut(part, "-")
	first, reason := parseID(low)
	if reason == "" && isRange {
		var last int
		if last, reason = parseID(high); reason == "" {
			if last < first {
				return &SyntaxError{list, part, "a range must rise"}
			}
			for cpu := first; cpu <= last; cpu++ {
				s.Add(cpu)
			}
			return nil
		}
	}
	if reason != "" {
		return &SyntaxError{list, part, reason}
	}
	s.Add(first)
	return nil
}

// parseID reads one CPU id. The reason is empty when it is one.
func parseID(digits string) (id int, reason string) {
	if digits == "" {
		return 0, "want CPU ids and ranges, such as 0-3,8"
	}
	for i := 0; i < len(digits); i++ {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, "want CPU ids and ranges, such as 0-3,8"
		}
		// Stops before id can overflow, leading zeros or not.
		if id = id*10 + int(digits[i]-'0'); id >= Max {
			return 0, "CPU ids go from 0 to " + strconv.Itoa(Max-1)
		}
	}
	return id, ""
}

// MustParse is Parse for lists that the program itself wrote. It panics on a
// bad one.
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

// MarshalText writes the kernel's list format: a Set is a JSON string.
func (s Set) MarshalText() ([]byte, error) { return s.Append([]byte{}), nil }

// UnmarshalText reads what MarshalText wrote, with Parse's rules.
func (s *Set) UnmarshalText(text []byte) error {
	set, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = set
	return nil
}
