package host

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
)

// check says what is wrong with a spec.
func (s *Spec) check() error {
	if s.Period < cgroup.MinPeriod || s.Period > cgroup.MaxPeriod {
		return fmt.Errorf("period %v: want %v to %v", s.Period, cgroup.MinPeriod, cgroup.MaxPeriod)
	}
	if err := s.Burst.check(); err != nil {
		return err
	}
	if s.View != ViewFull && s.View != ViewAffinity {
		return fmt.Errorf("view %.40q: want full or affinity", string(s.View))
	}
	_, _, err := parseOnResize(s.OnResize)
	return err
}

// parseOnResize reads how a program wants to be told of a new size: by a
// signal, by a command, or (neither) not at all.
func parseOnResize(s string) (sig syscall.Signal, command string, err error) {
	kind, what, _ := strings.Cut(s, ":")
	switch {
	case s == "none":
		return 0, "", nil
	case kind == "signal":
		switch sig = signalNamed(what); sig {
		case 0: // no signal's name
		case unix.SIGKILL, unix.SIGSTOP:
			return 0, "", fmt.Errorf("on-resize %.60q: no program can answer this signal: want another, such as signal:HUP", s)
		default:
			return sig, "", nil
		}
	case kind == "exec" && strings.TrimSpace(what) != "":
		return 0, what, nil
	}
	return 0, "", fmt.Errorf("on-resize %.60q: want none, signal:NAME (such as signal:HUP) or exec:COMMAND", s)
}

// CheckOnResize says what is wrong with a value of Spec.OnResize.
func CheckOnResize(s string) error {
	_, _, err := parseOnResize(s)
	return err
}

// signalNamed returns the signal with a name such as "HUP" or "SIGHUP"; 0 if
// there is none.
func signalNamed(name string) syscall.Signal {
	name = strings.ToUpper(name)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	return unix.SignalNum(name)
}
