//go:build !linux || !(amd64 || arm64)

package probe

import (
	"context"
	"fmt"
	"os"
	"runtime"
)

// Check always returns an error: this platform does not support watching programs.
func Check() error {
	return fmt.Errorf("%w: on %s; use amd64 or arm64", ErrUnsupported, runtime.GOARCH)
}

// Become is not supported.
func Become(string, []string) error { return Check() }

// Watch is not supported.
func Watch(context.Context, *os.File, func() int) (Seen, error) { return Seen{}, Check() }
