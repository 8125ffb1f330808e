package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3/vt"
	"golang.org/x/sys/unix"
)

// A screen is a pseudo-terminal with a program on it, and an emulator that shows the program's output.
type screen struct {
	*testing.T
	shown  vt.MockTerm
	master *os.File
	slave  *os.File
	before unix.Termios
	cmd    *exec.Cmd
}

// onScreen starts a command on a new pseudo-terminal.
func onScreen(t *testing.T, cmd *exec.Cmd, columns, rows int) *screen {
	t.Helper()
	term := &screen{T: t, shown: vt.NewMockTerm(), cmd: cmd}
	term.master, term.slave = terminal(t)
	t.Cleanup(func() { term.slave.Close() })
	if err := term.shown.Start(); err != nil {
		t.Fatal(err)
	}
	go io.Copy(term.shown, term.master)
	term.resize(columns, rows)
	before, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	term.before = *before
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.slave, term.slave, term.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "LC_ALL=C.UTF-8")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return term
}

// resize changes the window size; the kernel sends SIGWINCH to the program.
func (term *screen) resize(columns, rows int) {
	term.Helper()
	term.shown.SetSize(vt.Coord{X: vt.Col(columns), Y: vt.Row(rows)})
	err := unix.IoctlSetWinsize(int(term.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)})
	if err != nil {
		term.Fatal(err)
	}
}

// keys types text into the terminal.
func (term *screen) keys(text string) {
	term.Helper()
	if _, err := term.master.WriteString(text); err != nil {
		term.Fatal(err)
	}
}

// text returns the text that the terminal shows.
func (term *screen) text() string {
	var b strings.Builder
	size := term.shown.Backend().GetSize()
	for y := range size.Y {
		var line strings.Builder
		for x := range size.X {
			c := term.shown.GetCell(vt.Coord{X: x, Y: y})
			line.WriteString(max(c.C, " "))
		}
		fmt.Fprintln(&b, strings.TrimRight(line.String(), " "))
	}
	return b.String()
}

// shows waits until the shown text meets a condition.
func (term *screen) shows(what string, wanted func(text string) bool) string {
	term.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		text := term.text()
		if wanted(text) {
			return text
		}
		if time.Now().After(deadline) {
			term.Fatalf("never shows %s:\n%s", what, text)
		}
	}
}

// words waits until the terminal shows all words.
func (term *screen) words(words ...string) string {
	term.Helper()
	return term.shows(fmt.Sprintf("all of %q", words), func(text string) bool {
		for _, word := range words {
			if !strings.Contains(text, word) {
				return false
			}
		}
		return true
	})
}

// end waits for the program's end and returns its exit code. It fails the test if the program did not restore
// the terminal.
func (term *screen) end() int {
	term.Helper()
	term.cmd.Wait()
	after, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
	if err != nil || *after != term.before {
		term.Errorf("the terminal's settings are %+v, %v; want %+v as before", after, err, term.before)
	}
	term.shows("the screen from before", func(string) bool {
		return term.shown.Backend().GetPrivateMode(vt.PmAltScreen) != vt.ModeOn
	})
	return term.cmd.ProcessState.ExitCode()
}
