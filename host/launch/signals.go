package launch

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwardedSignals returns the signals that candor run forwards to a program. The other signals cannot be caught,
// belong to the Go runtime, or serve job control. For job control, the terminal and the shell treat candor and the
// program as one job.
func forwardedSignals() []os.Signal {
	var signals []os.Signal
	for n := syscall.Signal(1); n <= 64; n++ {
		switch n {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT,
			unix.SIGCHLD, unix.SIGURG, unix.SIGPROF, 32, 33,
			unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, unix.SIGPIPE:
			continue
		}
		if !signal.Ignored(n) { // ignored, for example by nohup: the program inherits that
			signals = append(signals, n)
		}
	}
	return signals
}

// hasTerminal reports whether this process has a controlling terminal.
//
// With a terminal, the program stays in candor's process group. In another group it could not read from the terminal
// while the other programs of a pipeline run, and Ctrl-Z would not stop it with them. Without a terminal, the program gets its own process
// group. A signal to candor's group then reaches the program once, because candor forwards it. In a common group, the
// program would get the signal twice, because candor cannot distinguish a signal to the group from a signal to candor.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close()
	return true
}

// isFromTerminal reports whether a signal probably comes from the terminal: a key such as Ctrl-C, or a new window
// size. Such a signal reaches the whole foreground process group, including the program.
func isFromTerminal(sig os.Signal) bool {
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

// endsProgram reports whether a signal usually ends a program.
func endsProgram(sig os.Signal) bool {
	return sig == unix.SIGINT || sig == unix.SIGTERM || sig == unix.SIGHUP || sig == unix.SIGQUIT
}
