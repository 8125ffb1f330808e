package host

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
)

const maxCommandText = 200 // runes

// CommandLine returns the command line of the container's first process, at most 200 characters. Only root and the
// owner of that process can read it; other callers get the program's name.
func (h *Host) CommandLine(g *Grant) string {
	first := h.firstProcess(g)
	if isHelper(first.PID) {
		return g.Command
	}
	owner, err := procfs.Owner(first.PID)
	if self := os.Geteuid(); err != nil || self != 0 && self != owner {
		return g.Command
	}
	text, err := procfs.CommandText(first.PID)
	if err != nil || !first.Alive() { // the process has ended, and another process can have its pid
		return g.Command
	}
	line := []rune(strings.TrimRight(strings.Map(printable, text), " "))
	switch {
	case len(line) == 0: // a zombie, or a process that has overwritten its arguments
		return g.Command
	case len(line) > maxCommandText:
		return string(line[:maxCommandText-1]) + "…"
	default:
		return string(line)
	}
}

// firstProcess returns the process of a container that Candor or the engine has started. If this process is unknown or has ended,
// firstProcess returns the first process in the container's cgroup. If it finds no such process, it returns g.Main, which can be zero or a
// process that has ended.
func (h *Host) firstProcess(g *Grant) Process {
	if g.Main.PID != 0 && g.Main.Alive() {
		return g.Main
	}
	pid, err := h.groupOf(g).FirstProcess()
	if err != nil || pid == 0 {
		return g.Main
	}
	first, err := state.ProcessOf(pid)
	if err != nil {
		return g.Main
	}
	return first
}

// printable replaces the NUL between words, and every other nonprinting character, by a space. A terminal can interpret such a character as
// a command.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// OnResize returns the method by which candor notifies a container's program of a new size. For the method exec, callers without the right
// to read the command get a reference to the file that holds the command.
func (h *Host) OnResize(g *Grant) string {
	if shown, err := h.store.ShownOnResize(g); err == nil {
		return shown
	}
	return g.OnResize
}

// dropArguments removes program arguments that an earlier version stored in the state and in the request files. The operation
// saves the changed state.
func (op *operation) dropArguments() error {
	var next *state.Saved
	for i, g := range op.saved.Grants {
		if !slices.Contains(op.saved.WithArguments, g.ID) && !op.store.ShowsCommand(g) {
			continue
		}
		if next == nil {
			next = op.saved.CloneWithoutArguments()
		}
		brief := *g
		if err := op.store.SaveHidingCommand(&brief); err != nil {
			return err
		}
		next.Grants[i] = &brief
	}
	if next == nil {
		return nil
	}
	op.saved = next
	return op.store.ProtectBadFile()
}

// notifyTimeout limits the run time of a command of OnResize.
const notifyTimeout = 30 * time.Second

// Notify notifies a container's program of its new size with the method of OnResize, and describes the result in done.
// The caller must not hold the lock, because the notification command can call candor itself.
func (h *Host) Notify(ctx context.Context, g *Grant, out, errOut io.Writer) (done string, err error) {
	onResize, err := h.store.ShownOnResize(g)
	if err != nil {
		return "", fmt.Errorf("%s has its new size, but could not be notified: %w", g.DisplayName(), err)
	}
	sig, command, err := spec.ParseOnResize(onResize)
	switch {
	case err != nil:
		return "", err
	case sig != 0:
		return h.signal(g, sig)
	case command == "":
		return "not notified: on-resize is none", nil
	}
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = append(os.Environ(), resizeEnv(g)...)
	cmd.Stdout, cmd.Stderr = out, errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s has its new size, but %q failed: %w", g.DisplayName(), command, err)
	}
	return "notified by " + strconv.Quote(command), nil
}

func (h *Host) signal(g *Grant, sig syscall.Signal) (string, error) {
	if !g.Main.Alive() {
		return "not notified: its first process has ended", nil
	}
	if err := syscall.Kill(g.Main.PID, sig); err != nil {
		return "", fmt.Errorf("%s has its new size, but could not be notified: signal process %d: %w", g.DisplayName(), g.Main.PID, err)
	}
	return fmt.Sprintf("notified by signal %v to process %d", sig, g.Main.PID), nil
}

// resizeEnv returns the environment of a command of OnResize.
func resizeEnv(g *Grant) []string {
	return []string{
		"CANDOR_NAME=" + g.ID,
		"CANDOR_PID=" + strconv.Itoa(g.Main.PID),
		"CANDOR_CPUS=" + strings.TrimSpace(g.CPUs.String()),
		"CANDOR_CPU_COUNT=" + strconv.Itoa(g.VisibleCPUs()),
		"CANDOR_LIMIT=" + g.Limit.String(),
	}
}
