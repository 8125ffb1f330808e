// Package guest boots a virtual machine with another kernel, another cgroup version or more CPUs than this
// machine has, and runs static programs in it: Go test binaries, as they come from `go test -c` with cgo off.
//
// The machine is emulated (QEMU's TCG), so it needs no /dev/kvm and no privileges. Nothing is written to a
// disk: the initramfs is a memory file, what the guest says comes through pipes, and QEMU dies with its parent.
// The kernels come from the cache that scripts/test-deps.sh fills.
package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/candor-project/candor/e2e/guest/report"
)

// ErrEmulator: the guest's kernel fell over an instruction that it had replaced already, a race in QEMU before 8.1.
// It says nothing about what ran in the guest, which can be booted again.
var ErrEmulator = errors.New("emulator's fault")

// Guest is a virtual machine and what it is to do.
type Guest struct {
	Kernel  Kernel
	Machine Machine
	Cgroup  int    // cgroup version: 1 (on kernels that have its cpuset controller) or 2
	Init    string // static build of e2e/guest/init on this machine
	Systemd bool   // systemd, which must be among the files, is PID 1 and starts Init as a service

	Files    map[string]string // path in the guest -> file or directory here; "/" is a whole root
	Texts    map[string]string // path in the guest -> what that file holds
	Commands []report.Command  // run one after the other

	Limit  time.Duration // wall time for everything, boot included; 0: two minutes
	Output io.Writer     // what the commands write, while they run; nil: nobody

	CPUTime time.Duration // set by Run: what the emulator used of this machine
}

// Run boots the guest, runs its commands and returns one result for each, in order.
// A command that fails is a result; a guest that does not come to its end is an error, which
// carries the tail of its console, and the results so far are returned beside it.
func (g *Guest) Run(ctx context.Context) ([]report.Result, error) {
	limit := g.Limit
	if limit == 0 {
		limit = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the guest had %s", limit))
	defer cancel()
	initrd, err := g.initramfs()
	if err != nil {
		return nil, fmt.Errorf("guest: initramfs: %w", err)
	}
	defer initrd.Close()
	vm, err := start(ctx, g, initrd)
	if err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	defer func() { g.CPUTime = vm.cpuTime }()
	results, err := report.Read(vm.reports, g.Commands, g.Output)
	if err != nil {
		// Nobody was told the end: let QEMU come to its own, or to the limit, before asking why.
		err = errors.Join(err, vm.wait(ctx))
		if bytes.Contains(vm.console.Bytes(), []byte(": int3:")) {
			err = errors.Join(ErrEmulator, err)
		}
		return results, fmt.Errorf("guest %s, %s: %w\nconsole:\n%s", g.Kernel.Release, g.Machine, err, tail(vm.console.Bytes(), 3000))
	}
	vm.stop()
	return results, nil
}

func tail(b []byte, n int) []byte {
	return bytes.TrimSpace(b[max(0, len(b)-n):])
}
