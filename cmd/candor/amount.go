package main

import (
	"fmt"

	"github.com/candor-project/candor/hybrid"
)

// count formats a number with its unit: "1 process", "2 processes".
func count[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// amount formats an amount of CPU: "1 CPU", "2 CPUs", "1500m".
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
