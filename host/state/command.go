package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/candor-project/candor/internal/fileio"
)

// Every user can read the state, and arguments can hold secrets. The state therefore stores the name of a program,
// never its arguments. A command of OnResize is stored in a file that only its owner can read: commands/NAME.

const (
	maxCommand     = 128 << 10 // bytes; the kernel passes no longer argument
	maxCommandName = 100       // runes
)

// ProgramName returns the name of a program from its command line: the base name of the first word. States of earlier
// versions hold whole command lines with spaces between the words, so the first space ends the name.
func ProgramName(command string) string {
	first, _, _ := strings.Cut(strings.TrimLeft(command, " "), " ")
	if first == "" {
		return ""
	}
	name := []rune(filepath.Base(first))
	return string(name[:min(len(name), maxCommandName)])
}

// storedCommand returns the part of a command that the state can hold: the program's name. The name of a pod's
// container is no command line and is stored unchanged.
func storedCommand(command string, e Engine) string {
	if !e.isNameOnly() && command == e.Name {
		return command
	}
	return ProgramName(command)
}

func (s Store) commandFile(name string) string { return filepath.Join(s.Dir, "commands", name) }

// commandReference returns the value of OnResize that runs the command file of a container. The value is also a shell command that runs the
// file, so it has the same effect in earlier versions, which do not know command files.
func (s Store) commandReference(name string) string {
	return "exec:sh '" + strings.ReplaceAll(s.commandFile(name), "'", `'\''`) + "'"
}

// HideCommand stores a command of OnResize in its own file and returns the reference to it. It returns other values of
// OnResize unchanged.
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

// ShownOnResize returns OnResize with the reference replaced by the command itself.
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

// ShowsCommand reports whether a grant holds the command of OnResize itself, instead of the reference to its file.
func (s Store) ShowsCommand(g *Grant) bool {
	return strings.HasPrefix(g.OnResize, "exec:") && g.OnResize != s.commandReference(g.ID)
}

// SaveHidingCommand moves the command of g.OnResize into a file that only its owner can read, and saves the container's
// request with a reference to that file.
func (s Store) SaveHidingCommand(g *Grant) (err error) {
	if g.OnResize, err = s.HideCommand(g.ID, g.OnResize); err != nil {
		return err
	}
	return s.SaveRequest(g)
}
