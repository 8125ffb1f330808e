//go:build !amd64 && !arm64

package prefetch

import "unsafe"

// Line has no effect on this architecture.
func Line(unsafe.Pointer) {}

// Lines has no effect on this architecture.
func Lines(unsafe.Pointer, int) {}
