package nodecpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// FormatCPUs formats a sensitive container's CPUs, such as "0-2,7:500m": first the exclusive CPUs as a list, then each fraction as
// CPU:AMOUNT.
func FormatCPUs(exclusive cpuset.Set, fractions []hybrid.Fraction) string {
	var parts []string
	if !exclusive.IsEmpty() {
		parts = append(parts, exclusive.String())
	}
	for _, f := range fractions {
		parts = append(parts, strconv.Itoa(f.CPU)+":"+f.Milli.String())
	}
	return strings.Join(parts, ",")
}

// ParseCPUs parses the output of FormatCPUs. A repeated CPU, or a fraction outside of 1m to 999m, is an error.
func ParseCPUs(text string) (exclusive cpuset.Set, fractions []hybrid.Fraction, err error) {
	if text == "" {
		return exclusive, nil, nil
	}
	var taken cpuset.Set
	for part := range strings.SplitSeq(text, ",") {
		list, milli, isFraction := strings.Cut(part, ":")
		cpus, err := cpuset.Parse(list)
		switch {
		case err != nil:
			return exclusive, nil, err
		case cpus.IsEmpty() || taken.Overlaps(&cpus):
			return exclusive, nil, fmt.Errorf("CPUs %.60q: %.60q: named twice, or none", text, part)
		}
		taken = taken.Union(cpus)
		if !isFraction {
			exclusive = exclusive.Union(cpus)
			continue
		}
		m, err := hybrid.ParseMilli(milli)
		if err != nil || m < 1 || m > 999 || cpus.Count() != 1 {
			return exclusive, nil, fmt.Errorf("CPUs %.60q: %.60q: must be a CPU and 1m to 999m of it, such as 7:500m", text, part)
		}
		fractions = append(fractions, hybrid.Fraction{CPU: cpus.First(), Milli: m})
	}
	slices.SortFunc(fractions, func(a, b hybrid.Fraction) int { return a.CPU - b.CPU })
	return exclusive, fractions, nil
}
