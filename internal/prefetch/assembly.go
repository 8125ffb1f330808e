//go:build amd64 || arm64

package prefetch

import "unsafe"

// Line asks for the cache line at an address.
//
//go:noescape
func Line(at unsafe.Pointer)

// Lines asks for count lines from an address on, one at least.
//
//go:noescape
func Lines(at unsafe.Pointer, count int)
