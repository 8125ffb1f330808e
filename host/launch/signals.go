package launch

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that a program is sent through candor run. The
// others cannot be caught, are the runtime's own, or are job control's: with these the
// terminal and the shell treat candor and the program as one.
func forwarded() []os.Signal {
	var signals []os.Signal
	for n := syscall.Signal(1); n <= 64; n++ {
		switch n {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT,
			unix.SIGCHLD, unix.SIGURG, unix.SIGPROF, 32, 33,
			unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, unix.SIGPIPE:
			continue
		}
		if !signal.Ignored(n) { // as nohup has it: the program ignores it too
			signals = append(signals, n)
		}
	}
	return signals
}

// hasTerminal reports whether this process has a controlling terminal. Where it has, the
// program stays in candor's process group: only there may it read from the terminal, beside the
// other programs of a pipeline, and stop with them at Ctrl-Z. Where it has none, the program gets
// a group of its own: a signal to candor's group then reaches it once, through candor, as
// nobody can tell such a signal from one that is sent to candor alone.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close()
	return true
}

// fromTerminal reports whether a signal was, as far as can be told, typed at
// the terminal (Ctrl-C) or told by it (a new window size). Such a signal goes to all of the
// terminal's foreground process group: the program has got it already.
func fromTerminal(sig os.Signal) bool {
	if sig != unix.SIGINT && sig != unix.SIGQUIT && sig != unix.SIGWINCH {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

// ends reports whether a signal usually ends a program.
func ends(sig os.Signal) bool {
	return sig == unix.SIGINT || sig == unix.SIGTERM || sig == unix.SIGHUP || sig == unix.SIGQUIT
}
