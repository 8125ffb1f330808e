// Package guest boots a virtual machine with another kernel, another cgroup version or more CPUs than this machine, and runs
// static programs in it: Go test binaries from `go test -c` without cgo.
//
// QEMU's TCG emulates the machine, so it needs neither /dev/kvm nor privileges. It writes no disk: the initramfs is a memory
// file, the output of the guest comes through pipes, and QEMU dies with its parent. The kernels come from the cache that
// scripts/test-deps.sh fills.
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

// ErrEmulator is a crash of the guest's kernel at an instruction that it had replaced, a race in QEMU before 8.1. It is
// independent of the programs in the guest; the guest can boot again.
var ErrEmulator = errors.New("emulator's fault")

// Guest is a virtual machine with its commands.
type Guest struct {
	Kernel  Kernel
	Machine Machine
	Cgroup  int    // cgroup version: 1 (on kernels that have its cpuset controller) or 2
	Init    string // static build of e2e/guest/init on this machine
	Systemd bool   // systemd, which must be among the files, is PID 1 and starts Init as a service

	Files    map[string]string // path in the guest -> file or directory here; "/" is a whole root
	Texts    map[string]string // path in the guest -> content of the file
	Commands []report.Command  // run in this order

	Limit  time.Duration // wall time for everything, boot included; 0: two minutes
	Output io.Writer     // receives the output of the commands while they run, if not nil

	CPUTime time.Duration // set by Run: CPU time of the emulator
}

// Run boots the guest, runs its commands and returns a result for each, in their order. A failed command is a result. If the
// guest does not finish, Run returns an error with the end of its console, and the results so far.
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
		// The report has no end: wait for the end of QEMU, or for the limit, before asking for the cause.
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
