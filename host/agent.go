package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/procfs"
)

// ErrAgentRuns means that a process of candor nri uses the state.
var ErrAgentRuns = errors.New("candor nri runs")

// agentFile is the file that each candor nri process locks while it runs. A GiveBack locks it exclusively.
func (h *Host) agentFile() string { return filepath.Join(h.store.Dir, "agent") }

// HoldAgent marks this process as an agent (candor nri) until release is called or the process ends. Several processes can hold the mark,
// such as an agent and its successor. HoldAgent waits a few seconds for the end of a GiveBack of another process. After this time, the
// error is ErrGivingBack. HoldAgent cancels a GiveBack that was interrupted, so that the next operation restores all grants.
func (h *Host) HoldAgent() (release func(), err error) {
	if h.planOnly {
		return func() {}, nil
	}
	file, err := h.lockAgentFile(unix.LOCK_SH, agentPatience)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%w: %s has the lock %s; start candor nri later", ErrGivingBack, holder(file), file.Name())
		file.Close()
	}
	if err != nil {
		return nil, err
	}
	if err := h.restoreRequests(); err != nil { // only a lost state file makes them necessary
		h.log.Warn("cannot write the requests of containers again, which a give-back has removed", "error", err)
	}
	isCanceled, err := h.store.UnmarkGiveBack()
	if err != nil {
		file.Close()
		return nil, err
	}
	if isCanceled {
		h.log.Warn("canceled a give-back that was interrupted: all containers get their CPUs again")
	}
	return func() { file.Close() }, nil
}

// restoreRequests writes the request files that an interrupted GiveBack has removed. It does nothing without such a GiveBack. No operation
// runs meanwhile, because the state is marked and the caller has locked the agent file.
func (h *Host) restoreRequests() error {
	if !h.isGivingBack() {
		return nil
	}
	saved, err := h.store.Load()
	if errors.As(err, new(*state.BrokenError)) {
		return nil // the request files that exist are all that is left
	}
	if err == nil {
		err = h.store.Prepare()
	}
	if err != nil {
		return err
	}
	for _, g := range saved.Grants {
		if _, err := os.Lstat(h.store.RequestFile(g.ID)); err == nil {
			continue
		}
		if err := h.store.SaveRequest(g); err != nil {
			return err
		}
	}
	return nil
}

// agentPatience is the time that an agent waits for a GiveBack.
const agentPatience = 10 * time.Second

// excludeAgents locks out all agents until release is called. The error is ErrAgentRuns if an agent runs, and ErrGivingBack
// during another GiveBack.
func (h *Host) excludeAgents() (release func(), err error) {
	file, err := h.lockAgentFile(unix.LOCK_EX, 0)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = lockedError(file)
		file.Close()
	}
	if err != nil {
		return nil, err
	}
	if err := h.checkOlderAgent(); err != nil {
		file.Close()
		return nil, err
	}
	return func() { file.Close() }, nil
}

// lockAgentFile creates the agent file and locks it with the flock(2) operation how. It retries for the duration patience. If
// another process still has a conflicting lock then, it returns the open file and unix.EWOULDBLOCK.
func (h *Host) lockAgentFile(how int, patience time.Duration) (*os.File, error) {
	const pause = 20 * time.Millisecond
	for end := time.Now().Add(patience); ; {
		if err := h.store.Prepare(); err != nil {
			return nil, err
		}
		file, err := os.OpenFile(h.agentFile(), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("agent lock: %w", err)
		}
		switch err = flock(file, how|unix.LOCK_NB); {
		case err == nil && isAt(file, h.agentFile()):
			return file, nil
		case errors.Is(err, unix.EWOULDBLOCK) && time.Now().After(end):
			return file, err
		case errors.Is(err, unix.EWOULDBLOCK):
			time.Sleep(pause)
		case err != nil:
			file.Close()
			return nil, fmt.Errorf("agent lock: %w", err)
		}
		file.Close() // busy, or removed by a GiveBack
	}
}

// lockedError returns the reason why the agent file cannot be locked exclusively: agents have a shared lock, a GiveBack has
// an exclusive lock.
func lockedError(file *os.File) error {
	process := holder(file)
	if errors.Is(flock(file, unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return fmt.Errorf("%w by %s; wait for its end", ErrGivingBack, process)
	}
	return agentError(process)
}

// CheckNoAgent returns ErrAgentRuns if a process of candor nri uses the state, and ErrGivingBack during a GiveBack. It changes
// nothing.
func (h *Host) CheckNoAgent() error {
	file, err := os.OpenFile(h.agentFile(), os.O_RDWR|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("agent lock: %w", err)
	default:
		defer file.Close()
		if err := flock(file, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
			return lockedError(file)
		} else if err != nil {
			return fmt.Errorf("agent lock: %w", err)
		}
	}
	return h.checkOlderAgent()
}

// checkOlderAgent returns ErrAgentRuns if an agent of an earlier version runs. Such an agent does not lock the agent file, but the grants
// of pods name the agent as their creator.
func (h *Host) checkOlderAgent() error {
	loaded, err := h.store.Load()
	if errors.As(err, new(*state.BrokenError)) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, g := range loaded.Grants {
		if g.Engine.Pod != "" && g.Creator.PID != os.Getpid() && g.Creator.Alive() {
			return agentError(fmt.Sprintf("process %d (%s)", g.Creator.PID, procfs.NameOf(g.Creator.PID)))
		}
	}
	return nil
}

func agentError(process string) error {
	return fmt.Errorf("%w: %s; stop it first, or with the chart use --set giveBack=true", ErrAgentRuns, process)
}
