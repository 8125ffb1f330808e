// Package experiment runs a workload under several setups, and reports the differences and their uncertainty.
//
// A Lab is a host with its own state and cgroups, which runs the workloads. An Experiment runs a Workload under several
// Setups and returns a Report. A Classification decides whether an application is sensitive. An Isolation measures how
// much a Stressor slows applications down. Decide, SignedRank, HodgesLehmann, PairedInterval and CliffsDelta compute
// the statistics for these results.
//
// The runs of the setups are interleaved in random order, so that other activity of the machine affects all setups
// alike. The package compares pairs of runs that were close in time. Its statistics assume no distribution: medians,
// exact rank tests, and the intervals of these tests. Reports always count failed runs. Package experiment draws no tables or
// pictures.
package experiment
