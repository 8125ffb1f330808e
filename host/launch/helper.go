package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/view"
)

// A startOrder makes a helper become the program. Arguments and environment are byte slices, because they need not be
// valid text.
type startOrder struct {
	Parent int    // pid of the candor process that gives the order
	View   string // directory of the view; "" for none
	Live   view.LiveParts
	Path   string
	Args   [][]byte
	Env    [][]byte
}

// A helper is a started helper process. It waits for a startOrder on its socket.
type helper struct {
	process *os.Process
	orders  *os.File
}

// startHelper starts this executable again as a helper, with the given standard streams. With ownMounts, the helper
// gets a new mount namespace; with ownGroup, a new process group. The helper inherits the files that the shell left
// open, under the same numbers.
func startHelper(streams [3]*os.File, ownMounts, ownGroup bool) (*helper, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	theirs, ours := os.NewFile(uintptr(pair[0]), "orders"), os.NewFile(uintptr(pair[1]), "orders")
	defer theirs.Close()
	// In the child, os.StartProcess uses the numbers right above the streams, so the socket gets a higher number.
	above := 100
	for _, stream := range streams {
		above = max(above, int(stream.Fd())+16)
	}
	passed, err := unix.FcntlInt(uintptr(pair[0]), unix.F_DUPFD, above) // without FD_CLOEXEC
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(passed)
	attributes := &os.ProcAttr{
		Files: streams[:],
		Sys:   &syscall.SysProcAttr{Setpgid: ownGroup},
	}
	if ownMounts {
		attributes.Sys.Cloneflags = syscall.CLONE_NEWNS
	}
	argv := []string{"candor", host.HelperCommand, strconv.Itoa(passed)}
	process, err := os.StartProcess("/proc/self/exe", argv, attributes)
	if err != nil {
		ours.Close()
		if ownMounts && errors.Is(err, unix.EPERM) {
			return nil, fmt.Errorf("%w: no mount namespace for the program (%w): run as root, or with --view affinity", host.ErrBadSpec, err)
		}
		return nil, fmt.Errorf("start helper: %w", err)
	}
	return &helper{process, ours}, nil
}

// start makes the helper become the program.
func (h *helper) start(order startOrder) error {
	data, err := json.Marshal(order)
	if err == nil {
		_, err = h.orders.Write(data)
	}
	return errline.Join(err, unix.Shutdown(int(h.orders.Fd()), unix.SHUT_WR))
}

// hasFailed reports whether the helper could not execute the program. The helper must have ended.
func (h *helper) hasFailed() bool {
	n, _, err := unix.Recvfrom(int(h.orders.Fd()), make([]byte, 1), unix.MSG_DONTWAIT)
	return err == nil && n > 0
}

// abort kills a helper that has not received its order.
func (h *helper) abort() {
	h.process.Kill()
	h.process.Wait()
	h.orders.Close()
}

// An ExecError means that the program could not be executed. Code is the exit code that shells use.
type ExecError struct {
	Code int // 126 or 127
	Err  error
}

func (e *ExecError) Error() string { return e.Err.Error() }
func (e *ExecError) Unwrap() error { return e.Err }

// RunHelper runs the helper process. fd is the number of its socket. It returns only on an error. If the candor process
// that started the helper has ended before the program starts, the helper exits without a message.
func RunHelper(fd string) error {
	// The affinity and the mounts belong to the thread that executes the program.
	runtime.LockOSThread()
	number, err := strconv.Atoi(fd)
	if err != nil || number < 3 {
		return fmt.Errorf("%w: %s is an internal command of candor", host.ErrBadSpec, host.HelperCommand)
	}
	unix.CloseOnExec(number)
	orders := os.NewFile(uintptr(number), "orders")
	data, err := io.ReadAll(orders)
	if err != nil {
		return err
	}
	var order startOrder
	if err := json.Unmarshal(data, &order); err != nil || order.isOrphaned() {
		os.Exit(1)
	}
	err = order.execute()
	_, _ = orders.Write([]byte{1}) // fails if the candor process has ended; then the next operation cleans up
	return err
}

// execute mounts the view and executes the program. It returns only on an error.
func (o *startOrder) execute() error {
	if o.View != "" {
		err := view.Mount(o.View)
		if err == nil {
			err = view.MountLive(o.View, o.Live)
		}
		if o.isOrphaned() { // the parent can have ended meanwhile, which makes the mount fail
			os.Exit(1)
		} else if err != nil {
			return err
		}
	}
	// Reset an inherited affinity, which would hide CPUs of the cpuset.
	all := new(unix.CPUSet)
	for cpu := range 8 * len(all) * 8 {
		all.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, all); err != nil {
		return fmt.Errorf("affinity: %w", err)
	}
	err := syscall.Exec(o.Path, toStrings(o.Args), toStrings(o.Env))
	return &ExecError{126, fmt.Errorf("execute %s: %w", o.Path, err)}
}

// isOrphaned reports whether the candor process that gave the order has ended. No process waits for the program then.
func (o *startOrder) isOrphaned() bool { return os.Getppid() != o.Parent }

func toStrings(in [][]byte) []string {
	out := make([]string, len(in))
	for i := range in {
		out[i] = string(in[i])
	}
	return out
}

func toBytes(in []string) [][]byte {
	out := make([][]byte, len(in))
	for i := range in {
		out[i] = bytes.Clone([]byte(in[i]))
	}
	return out
}
