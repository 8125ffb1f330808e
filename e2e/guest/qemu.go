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
	"sync"
	"syscall"
	"time"
)

// QEMU is the emulator's name.
const QEMU = "qemu-system-x86_64"

// cpu: no SMT siblings without Intel's name; QEMU 7.2 breaks flags with cmpxchg16b; five-level page tables cost time.
const cpu = "max,vendor=GenuineIntel,la57=off,cx16=off"

type vm struct {
	reports io.Reader // the second serial port: init and the commands
	console lockedBuffer
	copied  chan struct{} // closed at the end of the console
	ended   chan struct{} // closed when QEMU has ended
	err     error         // why, after that
	cpuTime time.Duration // used by QEMU, after that
	kill    context.CancelFunc
}

// start boots g. The VM is killed when ctx ends and when this process dies.
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
	args := []string{"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", cpu, "-nodefaults", "-no-reboot", "-display", "none",
		"-kernel", g.Kernel.Image, "-initrd", "/proc/self/fd/3", "-append", g.commandLine(),
		"-serial", "file:/proc/self/fd/4", "-serial", "file:/proc/self/fd/5"}
	cmd := exec.CommandContext(ctx, QEMU, append(args, g.Machine.args()...)...)
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

// run is QEMU's life, on a thread of its own: Pdeathsig counts the death of the thread that started it.
func (v *vm) run(cmd *exec.Cmd, started chan<- error, ours ...io.Closer) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	for _, c := range ours {
		c.Close() // else the reader never sees the end
	}
	started <- err
	if err == nil {
		v.err = cmd.Wait()
		v.cpuTime = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	close(v.ended)
}

// wait waits for the end of QEMU and returns its cause.
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

// stop kills QEMU: the guest has no data to save.
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
