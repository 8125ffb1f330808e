package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/google/renameio/v2"

	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/procfs"
)

// Every user may read the state, and arguments may hold secrets. The state therefore stores the name of a program, never
// its arguments, and a command of OnResize is stored in a file that only its owner can read: commands/NAME.

const (
	maxCommand     = 128 << 10 // bytes; the kernel passes no longer argument
	maxCommandName = 100       // runes
	maxCommandText = 200       // runes
)

// ProgramName returns the name of a program by its command line: the base name of the first word. States of earlier
// versions hold whole command lines with spaces between the words, so the first space ends the name.
func ProgramName(command string) string {
	first, _, _ := strings.Cut(strings.TrimLeft(command, " "), " ")
	if first == "" {
		return ""
	}
	name := []rune(filepath.Base(first))
	return string(name[:min(len(name), maxCommandName)])
}

// storedCommand returns the part of a command that the state may hold: the program's name, or the name of the pod's
// container, which is no command line.
func storedCommand(command string, e Engine) string {
	if e.Name != "" && command == e.Name {
		return command
	}
	return ProgramName(command)
}

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

func (s Store) commandFile(name string) string { return filepath.Join(s.Dir, "commands", name) }

// commandReference is the value of OnResize that runs the file of a container's command. Versions of Candor that do not
// know these files run the file by it.
func (s Store) commandReference(name string) string {
	return "exec:sh '" + strings.ReplaceAll(s.commandFile(name), "'", `'\''`) + "'"
}

// HideCommand stores a command of OnResize in its own file and returns the reference to it. Other values of OnResize
// come back unchanged.
func (s Store) HideCommand(name, onResize string) (reference string, err error) {
	reference = s.commandReference(name)
	command, isCommand := strings.CutPrefix(onResize, "exec:")
	if !isCommand || onResize == reference {
		return onResize, nil
	}
	file := s.commandFile(name)
	if err = os.Mkdir(filepath.Dir(file), 0o700); errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err == nil {
		err = renameio.WriteFile(file, []byte(command), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("command of %s: %w", name, err)
	}
	return reference, nil
}

// ShownOnResize returns OnResize with the command itself in the place of the reference to its file.
func (s Store) ShownOnResize(g *Grant) (string, error) {
	if g.OnResize != s.commandReference(g.ID) {
		return g.OnResize, nil
	}
	command, err := fileio.ReadNoLink(s.commandFile(g.ID), maxCommand)
	if err != nil {
		return "", fmt.Errorf("command of %s: %w", g.ID, err)
	}
	return "exec:" + string(command), nil
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
	var next *Saved
	for i, g := range op.saved.Grants {
		if !slices.Contains(op.saved.WithArguments, g.ID) && !op.store.ShowsCommand(g) {
			continue
		}
		if next == nil {
			next = &Saved{State: op.saved.State, text: op.saved.text}
			next.Grants, next.WithArguments = slices.Clone(next.Grants), nil
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

// ShowsCommand reports whether the state holds a command of OnResize itself.
func (s Store) ShowsCommand(g *Grant) bool {
	return strings.HasPrefix(g.OnResize, "exec:") && g.OnResize != s.commandReference(g.ID)
}

// SaveHidingCommand hides the command of a container and saves its request.
func (s Store) SaveHidingCommand(g *Grant) (err error) {
	if g.OnResize, err = s.HideCommand(g.ID, g.OnResize); err != nil {
		return err
	}
	return s.SaveRequest(g)
}
