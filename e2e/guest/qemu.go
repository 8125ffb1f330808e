package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// QEMU is the name of the emulator's program.
const QEMU = "qemu-system-x86_64"

// cpu is the CPU model. The vendor is Intel, because otherwise the guest has no SMT siblings. la57 (five-level page tables) is off,
// because it costs time. cx16 is off, because QEMU 7.2 sets wrong flags in cmpxchg16b.
const cpu = "max,vendor=GenuineIntel,la57=off,cx16=off"

// A vm is a running QEMU.
type vm struct {
	reports io.Reader     // second serial port, with the reports of init and the output of the commands
	console lockedBuffer  // console of the guest, and output of QEMU
	copied  chan struct{} // closed when the console has ended
	ended   chan struct{} // closed when QEMU has ended
	err     error         // cause of QEMU's end; valid after ended is closed
	cpuTime time.Duration // CPU time of QEMU; valid after ended is closed
	kill    context.CancelFunc
}

// start boots the guest. QEMU is killed when ctx is done, or when this process ends.
func start(ctx context.Context, g *Guest, initrd *os.File) (*vm, error) {
	consoleR, consoleW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reportsR, reportsW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, consoleR.Close(), consoleW.Close())
	}
	ctx, kill := context.WithCancel(ctx)
	args := []string{"-machine", "q35", "-cpu", cpu, "-nodefaults", "-no-reboot", "-display", "none",
		"-kernel", g.Kernel.Image, "-initrd", "/proc/self/fd/3", "-append", g.commandLine(),
		"-serial", "file:/proc/self/fd/4", "-serial", "file:/proc/self/fd/5"}
	cmd := exec.CommandContext(ctx, QEMU, slices.Concat(args, g.accelerator(), g.Machine.args())...)
	cmd.ExtraFiles = []*os.File{initrd, consoleW, reportsW}
	v := &vm{reports: reportsR, copied: make(chan struct{}), ended: make(chan struct{}), kill: kill}
	cmd.Stdout, cmd.Stderr = &v.console, &v.console
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	go v.run(cmd, started, consoleW, reportsW)
	if err := <-started; err != nil {
		kill()
		return nil, errors.Join(err, consoleR.Close(), reportsR.Close())
	}
	go func() {
		defer close(v.copied)
		defer consoleR.Close()
		io.Copy(&v.console, consoleR)
	}()
	return v, nil
}

// accelerator returns the arguments that choose the guest's clock.
func (g *Guest) accelerator() []string {
	if g.Counted {
		return []string{"-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"} // 2^0 ns for each instruction
	}
	return []string{"-accel", "tcg,thread=multi"}
}

// run starts QEMU and waits for its end. It stays on a single thread, because Pdeathsig kills QEMU when the thread that started QEMU
// ends. pipes are the write ends that QEMU inherits.
func (v *vm) run(cmd *exec.Cmd, started chan<- error, pipes ...io.Closer) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	for _, p := range pipes {
		p.Close() // otherwise the readers would not notice the end of QEMU
	}
	started <- err
	if err == nil {
		v.err = cmd.Wait()
		v.cpuTime = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	close(v.ended)
}

// wait waits until QEMU has ended and returns the cause of the end.
func (v *vm) wait(ctx context.Context) error {
	<-v.ended
	<-v.copied
	v.kill()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if v.err != nil {
		return fmt.Errorf("%s: %w", QEMU, v.err)
	}
	return nil
}

// stop kills QEMU and waits for its end. The guest need not shut down, because it has no data to save.
func (v *vm) stop() {
	v.kill()
	<-v.ended
	<-v.copied
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}
