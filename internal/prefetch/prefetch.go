//go:build amd64 || arm64

// Package prefetch tells the CPU which memory will be wanted soon, so that it is in the cache by then. That
// changes nothing else: any address will do, and nobody waits. Where memory is far, it is worth it: to wait for
// a cache line takes as long as a few hundred instructions, and to have asked for eight takes hardly longer than for one.
//
// Go's runtime has that instruction, but lets nobody else use it. On other processors than these two the functions do nothing.
package prefetch

import "unsafe"

// LineSize is that of a cache line, bytes.
const LineSize = 64

// Line asks for the cache line at an address.
//
//go:noescape
func Line(at unsafe.Pointer)

// Lines asks for count lines from an address on, one at least.
//
//go:noescape
func Lines(at unsafe.Pointer, count int)
