// Package experiment runs a workload under several set-ups, fairly, and says what differs and how
// sure that is.
//
// Runs of the set-ups are interleaved in random order, so that whatever else the machine does hits all of
// them alike. What is compared are pairs of runs that were close in time, by statistics that
// assume no distribution: medians, exact rank tests, bootstrap intervals. Failed runs count, and are never dropped
// in silence.
package experiment
