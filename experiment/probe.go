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

// A Prediction is what a program's start says of its class: a second opinion, without a measurement.
type Prediction struct {
	Class  Verdict `json:"class"` // Undecided if it was still starting when the time was over
	Why    string  `json:"why"`
	Starts []Start `json:"starts"` // where it sees all CPUs, and where it sees one
}

// A Start is how a program started.
type Start struct {
	CPUs int `json:"cpus"` // that it saw
	probe.Seen
}

// DefaultProbeTime is how long the start of a program takes at most: then it is ended.
const DefaultProbeTime = 10 * time.Second

// Probe starts a program twice, with all CPUs and with one to see, watches it for some time each, and predicts its class:
// sensitive if it asks for the number of CPUs, and has more threads where that is larger.
func (l *Lab) Probe(ctx context.Context, w *Workload, span time.Duration) (*Prediction, error) {
	all := l.usable.Count()
	switch {
	case all < 2:
		return nil, fmt.Errorf("%w for a probe: it needs 2, to show one or both, the machine has %d", ErrTooSmall, all)
	case len(w.Server) > 0 || len(w.Command) == 0:
		return nil, fmt.Errorf("%w: a probe wants one command", ErrBadWorkload)
	case span < 10*time.Millisecond || span > time.Hour:
		return nil, fmt.Errorf("%w: a probe of %v: want 10ms to 1h", ErrBadWorkload, span)
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

// predict decides by the starts.
func (p *Prediction) predict() {
	all, one := &p.Starts[0], &p.Starts[1]
	p.Class = Flexible
	asks, asksOne := len(all.Sources) > 0, len(one.Sources) > 0
	switch {
	case asks && all.Threads > one.Threads && (asksOne || one.Settled):
		p.Class = Sensitive
		p.Why = fmt.Sprintf("where it sees %d CPUs it has %d threads, where it sees 1 it has %d", all.CPUs, all.Threads, one.Threads)
	case !all.Settled || !one.Settled:
		p.Class = Undecided
		p.Why = "when the time was over it was still opening files or starting threads: want a longer --probe-for"
	case !asks:
		p.Why = "it asks nothing how many CPUs there are"
	default:
		p.Why = fmt.Sprintf("it asks how many CPUs there are, but has no more threads where there are %d (%d) than where there is 1 (%d)", all.CPUs, all.Threads, one.Threads)
	}
}

// watch starts a program under a set-up and watches it until it ends, or the time is over.
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
	defer ours.Close()
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
	var listener *os.File // open until the program has been ended: when nobody listens its calls fail
	defer func() {
		err = errline.Join(err, l.host.Release(context.Background(), child.Grant.ID, true))
		listener.Close()
	}()
	span += time.Second // candor itself starts first
	timed, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	ended := make(chan string, 1)
	go func() {
		state, err := child.Wait()
		if err != nil {
			ended <- err.Error()
		} else {
			ended <- failed(state, output.last())
		}
		cancel()
	}()
	if heard, hearErr := receive(timed, ours); hearErr == nil {
		listener = heard
		seen, err = probe.Watch(timed, listener, func() int { return tasksOf(child) })
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

// socketPair returns two ends of a socket.
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

// receive returns the file that the other side sends; an error if it ends first.
func receive(ctx context.Context, from *net.UnixConn) (*os.File, error) {
	stop := context.AfterFunc(ctx, func() { from.SetReadDeadline(time.Now()) })
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

// tasksOf counts a program's threads.
func tasksOf(child *launch.Child) (threads int) {
	processes, _ := child.Processes()
	for _, pid := range processes {
		if tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); err == nil {
			threads += len(tasks)
		}
	}
	return threads
}

// SourceNames are the sources that the program asked, by comma.
func (s *Start) SourceNames() string {
	var names []string
	for _, source := range s.Sources {
		names = append(names, source.Name)
	}
	return strings.Join(names, ", ")
}
