// Package seencpus has the CPU counts that a container sees, as reports and tables show them.
package seencpus

import (
	"strconv"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// A Summary holds the CPU counts that a container sees.
type Summary struct {
	Affinity int    `json:"sees,omitempty"`      // CPUs of the affinity; 0: unknown
	Files    int    `json:"seesFiles,omitempty"` // CPUs in /sys/devices/system/cpu/online and /proc/cpuinfo; 0: unknown
	Note     string `json:"seesNote,omitempty"`  // reason for a difference that the container's settings do not explain, and the remedy
}

// String returns the counts: "2" if affinity and files agree, "1/2" if they differ, "1/?" if the files are unknown, and "-" if
// nothing is known.
func (s Summary) String() string {
	text := func(n int) string {
		if n == 0 {
			return "?"
		}
		return strconv.Itoa(n)
	}
	switch {
	case s.Affinity == 0 && s.Files == 0:
		return "-"
	case s.Affinity == s.Files:
		return text(s.Affinity)
	default:
		return text(s.Affinity) + "/" + text(s.Files)
	}
}

// Parse parses the result of String. ok is false for any other text.
func Parse(text string) (s Summary, ok bool) {
	affinity, files, differ := strings.Cut(text, "/")
	if !differ {
		files = affinity
	}
	for _, part := range []struct {
		text string
		to   *int
	}{{affinity, &s.Affinity}, {files, &s.Files}} {
		if n, err := strconv.ParseUint(part.text, 10, 16); err == nil && n <= cpuset.Max {
			*part.to = int(n)
		}
	}
	return s, s.String() == text
}
