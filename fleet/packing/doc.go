// Package packing solves the allocation problem of Büttner et al. ("Performance
// Isolation of Co-located Workload in a Container-based Vehicle Software
// Architecture", AMBIENT 2019, section II-B): a set of applications, a set of
// nodes, capacities by resource; each application is on exactly one node, and no
// node has more than it can hold. It looks for the fewest nodes or the least sharing.
//
// The problem is NP-hard. Small cases are solved exactly, by branch and bound; of
// larger ones the solution says how far from the best it can be.
//
// The package reads and writes what it is handed; it opens no file.
package packing
