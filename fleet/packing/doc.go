// Package packing solves the allocation problem of Büttner et al. ("Performance Isolation of Co-located Workload in a Container-based
// Vehicle Software Architecture", AMBIENT 2019, section II-B): a set of applications, a set of nodes, and capacities by resource. Each
// application is on exactly one node, and no node exceeds its capacity. The objective is the fewest nodes or the least sharing.
//
// The problem is NP-hard. Branch and bound solves small cases exactly; the solution of a larger case includes a bound on its distance from
// the optimum.
//
// The package reads and writes the streams of its caller; it opens no file.
package packing
