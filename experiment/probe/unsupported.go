//go:build !linux || !(amd64 || arm64)

package probe

import (
	"context"
	"fmt"
	"os"
	"runtime"
)

// Check says that nothing can be watched on this machine.
func Check() error {
	return fmt.Errorf("%w: on %s: want amd64 or arm64", ErrUnsupported, runtime.GOARCH)
}

// Become is not there.
func Become(string, []string) error { return Check() }

// Watch is not there.
func Watch(context.Context, *os.File, func() int) (Seen, error) { return Seen{}, Check() }
