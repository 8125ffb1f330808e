// Package packing solves the allocation problem of Büttner et al. ("Performance Isolation of Co-located Workload in a Container-based
// Vehicle Software Architecture", AMBIENT 2019, section II-B). Given are applications with their demand for each resource, and nodes with
// their capacity. An allocation places each application on exactly one node so that no node exceeds its capacity. The objective is the
// fewest nodes, or the least sharing: the CPU time on CPUs that several applications use.
//
// The problem is NP-hard. Branch and bound solves small cases exactly. For a larger case, the solution includes a lower bound on the
// optimum.
//
// The package reads and writes the streams of its caller and opens no files.
package packing
