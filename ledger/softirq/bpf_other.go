//go:build !amd64 && !arm64

package softirq

import (
	"errors"
	"fmt"
)

func newTracer(bool, uint64) (tracer, error) {
	return nil, fmt.Errorf("cannot trace the softirqs of packets: %w on this architecture; it works on amd64 and arm64", errors.ErrUnsupported)
}
