package host

import (
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/procfs"
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

// firstProcess returns the first process of a container: the process that Candor or the engine has started, or, if it is not
// known or has ended, the first process in the container's cgroup. It returns the zero value if there is none.
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

// printable replaces the NUL between words, and every other nonprinting character, by a space. Terminals could obey
// such a character.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// OnResize returns the method by which candor notifies a container's program of a new size. Callers without the right
// to read its command get a reference to the file that holds the command.
func (h *Host) OnResize(g *Grant) string {
	if shown, err := h.store.ShownOnResize(g); err == nil {
		return shown
	}
	return g.OnResize
}

// dropArguments removes the program arguments that an earlier version has stored: in the loaded state, which this
// operation saves, and in the request files.
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
