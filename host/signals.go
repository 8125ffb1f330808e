package host

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

// fromTerminal reports whether a signal was, as far as can be told, typed at
// the terminal (Ctrl-C) or told by it (a new window size). Such a signal goes to all of the
// terminal's foreground process group: the program has got it already.
func fromTerminal(sig os.Signal) bool {
	if sig != unix.SIGINT && sig != unix.SIGQUIT && sig != unix.SIGWINCH {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false // no terminal
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

// ends reports whether a signal usually ends a program.
func ends(sig os.Signal) bool {
	return sig == unix.SIGINT || sig == unix.SIGTERM || sig == unix.SIGHUP || sig == unix.SIGQUIT
}
