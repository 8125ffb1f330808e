// Package nodemap packs the CPU maps of many nodes for the page of kubectl candor web: a node takes 2 bits for each CPU and a few
// numbers, so that 5,000 nodes fit into a single answer. The page decodes the same form in JavaScript.
//
// A packed map has a header and a record for each node. Numbers are little-endian:
//
//	header   4 bytes "CNDR"
//	         4 bytes version of the form, 1
//	         8 bytes revision, as a floating point number: JavaScript has no integers of 64 bits
//	         4 bytes number of records
//	record   1 byte  state
//	         1 byte  length of the name in bytes, then the name
//	         2 bytes number of CPUs
//	         2 bytes free whole CPUs
//	         4 bytes shared time of the sensitive containers, in milli-CPU
//	         4 bytes limits of the sensitive containers, in milli-CPU
//	         4 bytes time of the report, in seconds since 1970
//	         2 bits for each CPU, in the order of the CPU IDs, lowest bits first; the last byte is filled with zeros
package nodemap
