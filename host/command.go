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

// CommandLine returns the command line of the container's first process, at most 200 characters, where the caller may
// read it: root, and the owner of that process. Otherwise it returns the program's name.
func (h *Host) CommandLine(g *Grant) string {
	if isHelper(g.Main.PID) {
		return g.Command
	}
	owner, err := procfs.Owner(g.Main.PID)
	if self := os.Geteuid(); err != nil || self != 0 && self != owner {
		return g.Command
	}
	text, err := procfs.CommandText(g.Main.PID)
	if err != nil || !g.Main.Alive() { // the process has ended: its number may be another one's by now
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

// printable replaces the NUL between words, and everything else that a terminal might obey, by a space.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// OnResize returns how a container is notified of a new size. Callers that may not read its command get a reference to
// the file that holds it.
func (h *Host) OnResize(g *Grant) string {
	if shown, err := h.store.ShownOnResize(g); err == nil {
		return shown
	}
	return g.OnResize
}

// dropArguments replaces the arguments that an earlier version has stored: in the loaded state, which this operation
// saves, and in the requests beside it.
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
