package spec

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ParseOnResize parses the method by which candor notifies a program of a new size: "none", "signal:NAME" or
// "exec:COMMAND". It returns the signal or the command; both are zero for "none".
func ParseOnResize(s string) (sig syscall.Signal, command string, err error) {
	kind, value, _ := strings.Cut(s, ":")
	switch {
	case s == "none":
		return 0, "", nil
	case kind == "signal":
		switch sig = signalNamed(value); sig {
		case 0: // unknown signal
		case unix.SIGKILL, unix.SIGSTOP:
			return 0, "", fmt.Errorf("on-resize %.60q: no program can handle this signal; use another signal such as signal:HUP", s)
		default:
			return sig, "", nil
		}
	case kind == "exec" && strings.TrimSpace(value) != "":
		return 0, value, nil
	}
	return 0, "", fmt.Errorf("on-resize %.60q: must be none, signal:NAME (such as signal:HUP) or exec:COMMAND", s)
}

// CheckOnResize returns an error for a value of Spec.OnResize that ParseOnResize cannot parse.
func CheckOnResize(s string) error {
	_, _, err := ParseOnResize(s)
	return err
}

// signalNamed returns the signal with a name such as "HUP" or "SIGHUP", or 0.
func signalNamed(name string) syscall.Signal {
	name = strings.ToUpper(name)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	return unix.SignalNum(name)
}
