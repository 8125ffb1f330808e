// Package cputext formats numbers and sets of CPUs for people.
package cputext

import (
	"fmt"

	"github.com/candor-project/candor/cpuset"
)

// Count formats a number with its noun: "1 round", "2 rounds".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// List formats a set with its noun: "CPU 3", "CPUs 0-3", "no CPUs".
func List(s cpuset.Set, singular, plural string) string {
	switch s.Count() {
	case 0:
		return "no " + plural
	case 1:
		return singular + " " + s.String()
	default:
		return plural + " " + s.String()
	}
}

// CPUs formats a set of CPUs: "CPU 3", "CPUs 0-3".
func CPUs(s cpuset.Set) string { return List(s, "CPU", "CPUs") }

// Mems formats a set of memory nodes: "memory node 0", "memory nodes 0-1".
func Mems(s cpuset.Set) string { return List(s, "memory node", "memory nodes") }
