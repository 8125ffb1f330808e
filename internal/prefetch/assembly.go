//go:build amd64 || arm64

package prefetch

import "unsafe"

// Line prefetches the cache line at an address.
//
//go:noescape
func Line(at unsafe.Pointer)

// Lines prefetches count cache lines from an address on, at least 1.
//
//go:noescape
func Lines(at unsafe.Pointer, count int)
