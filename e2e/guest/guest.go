// Package guest boots a virtual machine, the guest, and runs statically linked programs in the guest, such as Go test binaries from
// `go test -c` without cgo. The guest can have another kernel, another cgroup version or more CPUs than this machine, the host.
//
// QEMU's TCG emulates the guest, so the host needs neither /dev/kvm nor privileges. The guest has no disk: its initramfs is a file
// in memory, and its output comes through pipes. QEMU ends when its parent process ends. The kernels come from the cache that
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

// ErrEmulator means that the guest's kernel crashed at an instruction that the kernel had just replaced. The cause is a race in
// QEMU before 8.1, not a program in the guest. So the caller can boot the guest again.
var ErrEmulator = errors.New("emulator's fault")

// Guest is a virtual machine with the commands to run in it.
type Guest struct {
	Kernel  Kernel
	Machine Machine
	Cgroup  int    // cgroup version: 2, or 1 if the kernel has the cpuset controller of v1
	Init    string // path on the host of a static build of e2e/guest/init
	Systemd bool   // systemd is PID 1 and starts Init as a service; Files must contain systemd
	Boot    string // additional parameters for the kernel, separated by blanks

	// Counted makes the clock of the guest count instructions: each takes a nanosecond, and idle time passes at once. So other programs
	// on the host do not change what the guest measures. All CPUs of the guest share the nanoseconds, so Machine should have a single CPU.
	Counted bool

	Files    map[string]string // path in the guest -> file or directory on the host; the path "/" stands for a complete root file system
	Texts    map[string]string // path in the guest -> content of the file
	Commands []report.Command  // run in this order

	Limit  time.Duration // maximum wall time of Run, including the boot; 0: two minutes
	Output io.Writer     // if not nil, gets the output of the commands while they run

	CPUTime time.Duration // set by Run: CPU time of the emulator
}

// Run boots the guest, runs its commands and returns a result for each command, in the order of the commands. The failure of a
// command is not an error. If the guest ends early, Run returns the results so far, and an error with the end of the console output.
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
		// The report has no end. Wait until QEMU has ended or was killed at the limit, so that the error can contain the cause.
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
