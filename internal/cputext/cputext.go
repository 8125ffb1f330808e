// Package cputext writes numbers and sets of CPUs as people read them.
package cputext

import "github.com/candor-project/candor/cpuset"

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

// CPUs is List of CPUs.
func CPUs(s cpuset.Set) string { return List(s, "CPU", "CPUs") }

// Mems is List of memory nodes.
func Mems(s cpuset.Set) string { return List(s, "memory node", "memory nodes") }
