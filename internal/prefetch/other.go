//go:build !amd64 && !arm64

package prefetch

import "unsafe"

// Line does nothing here.
func Line(unsafe.Pointer) {}

// Lines does nothing here.
func Lines(unsafe.Pointer, int) {}
