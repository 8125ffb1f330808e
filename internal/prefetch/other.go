//go:build !amd64 && !arm64

package prefetch

import "unsafe"

const LineSize = 64

func Line(unsafe.Pointer) {}

func Lines(unsafe.Pointer, int) {}
