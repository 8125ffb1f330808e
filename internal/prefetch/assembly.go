//go:build amd64 || arm64

package prefetch

import "unsafe"

// Line prefetches the cache line at an address.
//
//go:noescape
func Line(at unsafe.Pointer)

// Lines prefetches the given number of consecutive cache lines, starting with the line at an address. A number below 1 counts as 1.
//
//go:noescape
func Lines(at unsafe.Pointer, count int)
