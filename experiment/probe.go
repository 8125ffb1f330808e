package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/experiment/probe"
	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/internal/errline"
)

// A Prediction is the class that Candor predicts from a program's start, without a measurement.
type Prediction struct {
	Class  Verdict `json:"class"` // Undecided if the time limit of a start was too short
	Why    string  `json:"why"`
	Starts []Start `json:"starts"` // with all CPUs visible, and with one CPU visible
}

// A Start is an observed start of a program.
type Start struct {
	CPUs int `json:"cpus"` // visible to the program
	probe.Seen
}

// DefaultProbeTime is the default time limit for each start of a program. At the limit, Probe kills the program.
const DefaultProbeTime = 10 * time.Second

// Probe starts a program twice, once with all CPUs visible and once with a single CPU, and watches each start for at most span. It predicts
// Sensitive if the program reads the number of CPUs and starts more threads when it sees more CPUs.
func (l *Lab) Probe(ctx context.Context, w *Workload, span time.Duration) (*Prediction, error) {
	all := l.usable.Count()
	switch {
	case all < 2:
		return nil, fmt.Errorf("%w for a probe: it needs 2, the machine has %d", ErrTooSmall, all)
	case len(w.Server) > 0 || len(w.Command) == 0:
		return nil, fmt.Errorf("%w: a probe needs a command and no server", ErrBadWorkload)
	case span < 10*time.Millisecond || span > time.Hour:
		return nil, fmt.Errorf("%w: probe time %v: must be 10ms to 1h", ErrBadWorkload, span)
	}
	if err := probe.Check(); err != nil {
		return nil, err
	}
	p := &Prediction{}
	for _, s := range []Setup{{Kind: None}, {Kind: Candor, Limit: 1000}} {
		seen, err := l.watch(ctx, w.args(all), &s, span)
		if err != nil {
			return nil, err
		}
		p.Starts = append(p.Starts, Start{CPUs: s.visible(all), Seen: seen})
	}
	p.predict()
	return p, nil
}

// predict sets the class from the starts.
func (p *Prediction) predict() {
	all, one := &p.Starts[0], &p.Starts[1]
	p.Class = Flexible
	readsAll, readsOne := len(all.Sources) > 0, len(one.Sources) > 0
	switch {
	case readsAll && all.Threads > one.Threads && (readsOne || one.Settled):
		p.Class = Sensitive
		p.Why = fmt.Sprintf("it has %d threads with %d visible CPUs, and %d with 1", all.Threads, all.CPUs, one.Threads)
	case !all.Settled || !one.Settled:
		p.Class = Undecided
		p.Why = "it still opened files or started threads at the time limit; use a longer --probe-for"
	case !readsAll:
		p.Why = "it does not read the number of CPUs"
	default:
		p.Why = fmt.Sprintf("it reads the number of CPUs, but has no more threads with %d CPUs (%d) than with 1 (%d)", all.CPUs, all.Threads, one.Threads)
	}
}

// watch starts a program under a setup, and watches the program until it ends or the time span has passed.
func (l *Lab) watch(ctx context.Context, args []string, s *Setup, span time.Duration) (seen probe.Seen, err error) {
	path, err := launch.FindProgram(args[0])
	if err != nil {
		return seen, err
	}
	if err := l.reserve(s); err != nil {
		return seen, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return seen, err
	}
	defer ours.Close() //nolint:errcheck // it is only read
	output, write, err := newTail()
	if err != nil {
		theirs.Close()
		return seen, err
	}
	program := launch.Program{Path: "/proc/self/exe", Args: append([]string{"candor", probe.Command, path}, args...), Env: os.Environ()}
	child, err := launch.Start(ctx, l.host, s.allocation("probe"), program, [3]*os.File{theirs, write, write})
	theirs.Close()
	write.Close()
	if err != nil {
		return seen, err
	}
	var listener *os.File // open until the program has been killed; without a listener, the program's system calls fail
	defer func() {
		err = errline.Join(err, l.host.Release(context.Background(), child.Grant.ID, true))
		listener.Close()
	}()
	span += time.Second // the time in which the candor process itself starts
	timed, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	ended := make(chan string, 1)
	go func() {
		state, err := child.Wait()
		if err != nil {
			ended <- err.Error()
		} else {
			ended <- exitFailure(state, output.last())
		}
		cancel()
	}()
	if heard, hearErr := receive(timed, ours); hearErr == nil {
		listener = heard
		seen, err = probe.Watch(timed, listener, func() int { return countThreads(child) })
	}
	<-timed.Done()
	select {
	case failure := <-ended:
		seen.Settled = true
		if failure != "" && err == nil {
			err = fmt.Errorf("%w: %s", ErrFailing, failure)
		}
	default:
	}
	return seen, errline.Join(err, ctx.Err())
}

// socketPair returns the two ends of a socket.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	file := os.NewFile(uintptr(pair[0]), "socket")
	defer file.Close()
	theirs = os.NewFile(uintptr(pair[1]), "socket")
	conn, err := net.FileConn(file)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}

// receive returns the file that the process at the other end of a socket sends. It returns an error if that process
// ends first.
func receive(ctx context.Context, from *net.UnixConn) (*os.File, error) {
	stop := context.AfterFunc(ctx, func() { _ = from.SetReadDeadline(time.Now()) }) // fails only if the socket is closed
	defer stop()
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := from.ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(files) != 1 {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return os.NewFile(uintptr(files[0]), "listener"), nil
}

// countThreads returns the number of a program's threads.
func countThreads(child *launch.Child) (threads int) {
	processes, _ := child.Processes()
	for _, pid := range processes {
		if tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); err == nil {
			threads += len(tasks)
		}
	}
	return threads
}

// SourceNames returns the sources that the program read, separated by commas.
func (s *Start) SourceNames() string {
	var names []string
	for _, source := range s.Sources {
		names = append(names, source.Name)
	}
	return strings.Join(names, ", ")
}
