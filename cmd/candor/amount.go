package main

import (
	"fmt"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// count writes a number with what it counts: "1 process", "2 processes".
func count[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// amount writes an amount of CPU for people: "1 CPU", "2 CPUs", "1500m".
func amount(m hybrid.Milli) string {
	if m%1000 == 0 {
		return count(int(m/1000), "CPU", "CPUs")
	}
	return m.String()
}

// limit writes a limit, which may be none.
func limit(m hybrid.Milli) string {
	if m == 0 {
		return "none"
	}
	return amount(m)
}

// list writes a set with what is in it: "CPU 3", "CPUs 0-3", "no CPUs".
func list(s cpuset.Set, one, many string) string {
	switch s.Count() {
	case 0:
		return "no " + many
	case 1:
		return one + " " + s.String()
	default:
		return many + " " + s.String()
	}
}

func cpuList(s cpuset.Set) string { return list(s, "CPU", "CPUs") }
