//go:build !amd64 && !arm64

package sample

import (
	"errors"
	"fmt"
)

func newBPFSampler() (sampler, error) {
	return nil, fmt.Errorf("cannot sample with BPF: %w on this architecture; it works on amd64 and arm64", errors.ErrUnsupported)
}

func newRegisterSampler() (sampler, error) {
	return nil, fmt.Errorf("cannot sample registers: %w on this architecture; it works on amd64 and arm64", errors.ErrUnsupported)
}

func newExitRecorder() (exitRecorder, error) {
	return nil, fmt.Errorf("cannot trace the end of processes: %w on this architecture; it works on amd64 and arm64", errors.ErrUnsupported)
}
