// Package engine configures container engines for Candor. It adds candor's OCI runtimes to the configuration file of an engine, and
// can remove the runtimes again. The rest of the file does not change. The package never writes a file that the engine cannot read.
package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aymanbagabas/go-udiff"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/fileio"
)

// A Runtime is an OCI runtime in the configuration of an engine.
type Runtime struct {
	Name string // as users write it: docker run --runtime NAME
	Path string
}

// A Setup describes the change of an engine's configuration, and the files that are involved.
type Setup struct {
	Engine   Engine
	File     string    // the engine's configuration; links are followed
	Record   string    // file that stores the former configuration
	Runtimes []Runtime // the first is the runtime for Default
	Default  bool      // make the first runtime the engine's default
}

// An Engine is a container engine that this package can configure.
type Engine struct {
	Name string // docker, podman, containerd
	File string // default path of the configuration
	// Then is an instruction for the user: how to make the engine read the new file after Apply. ThenUndo is the instruction after Undo.
	Then, ThenUndo string

	// add returns the configuration with the runtimes added. An error means that the runtimes cannot be added to this configuration.
	add func(text []byte, s *Setup) ([]byte, error)
	// has reports whether the configuration contains any of the runtimes.
	has func(text []byte, s *Setup) (bool, error)
	// remove returns the configuration without the runtimes. before is the record of the first setup; nil if that record is lost.
	remove func(text []byte, before *record, s *Setup) ([]byte, error)
	// canStart reports whether the engine could start with a former configuration. The engine does not start if the default is a
	// runtime of candor that the configuration does not contain. canStart is nil if remove already returns an error in this case.
	canStart func(s *Setup, text []byte) bool
	// defaults are the paths of the settings for default runtimes in the configuration, for remove.
	defaults [][]string
}

// ErrBadFile means that the engine's configuration cannot be read, or has other settings for candor's runtimes. The file was not
// changed.
var ErrBadFile = errors.New("engine's configuration")

// A Change is a change of the engine's configuration that was made or planned.
type Change struct {
	File   string
	Before []byte
	After  []byte
	Gone   bool // the file is removed
}

// Nothing reports whether the file does not change.
func (c *Change) Nothing() bool { return !c.Gone && bytes.Equal(c.Before, c.After) }

// Diff returns the change as a unified diff.
func (c *Change) Diff() string {
	return udiff.Unified(c.File, c.File, string(c.Before), string(c.After))
}

const maxFile = 4 << 20 // bytes

// A record holds the engine's configuration from before the first setup.
type record struct {
	File   string `json:"file"`
	Before []byte `json:"before"`
	Made   bool   `json:"made"` // the file did not exist before the first setup
}

// read returns the engine's configuration. The text of a missing file is empty.
func (s *Setup) read() (text []byte, missing bool, err error) {
	text, err = fileio.Read(s.File, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(s.File); err == nil {
			return nil, false, fmt.Errorf("%w: %s: a link to a missing file: create that file, or remove the link", ErrBadFile, s.File)
		}
		return nil, true, nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrBadFile, err)
	}
	return text, false, err
}

// Apply adds the runtimes. If dry is true, it only returns the change.
func (s *Setup) Apply(dry bool) (Change, error) {
	text, missing, err := s.read()
	if err != nil {
		return Change{}, err
	}
	after, err := s.Engine.add(text, s)
	if err != nil {
		return Change{}, fmt.Errorf("%w %s: %w", ErrBadFile, s.File, err)
	}
	c := Change{File: s.File, Before: text, After: after}
	if c.Nothing() {
		return c, nil
	}
	old, err := s.load()
	if err != nil {
		return Change{}, err
	}
	if dry {
		return c, nil
	}
	has, err := s.has(text)
	if err == nil && (old == nil || !has) { // without runtimes in the text, an existing record is out of date
		err = s.save(&record{s.File, text, missing})
	}
	if err != nil {
		return c, err
	}
	if err = s.write(&c); err != nil && !has { // nothing was added: Undo needs no record
		err = errline.Join(err, os.Remove(s.Record))
	}
	return c, err
}

func (s *Setup) has(text []byte) (bool, error) {
	has, err := s.Engine.has(text, s)
	if err != nil {
		err = fmt.Errorf("%w %s: %w", ErrBadFile, s.File, err)
	}
	return has, err
}

// IsDone reports whether the configuration contains any of the runtimes.
func (s *Setup) IsDone() (bool, error) {
	text, _, err := s.read()
	if err != nil {
		return false, err
	}
	return s.has(text)
}

// UseRecordedFile sets File to the file of the first setup, if there is a record.
func (s *Setup) UseRecordedFile() error {
	r, err := s.readRecord()
	if err == nil && r != nil {
		s.File = r.File
	}
	return err
}

// Undo removes the runtimes, but not the user's later changes. If dry is true, it only returns the change.
func (s *Setup) Undo(dry bool) (Change, error) {
	old, err := s.load()
	if err != nil {
		return Change{}, err
	}
	text, missing, err := s.read()
	if err != nil {
		return Change{}, err
	}
	c := Change{File: s.File, Before: text, After: text}
	has, err := s.has(text)
	if err == nil && has {
		err = s.plan(&c, old)
	}
	if err != nil {
		return Change{}, err
	}
	c.Gone = !missing && old != nil && old.Made && isEmpty(c.After)
	if dry {
		return c, nil
	}
	switch {
	case c.Gone:
		if err = s.unchanged(&c); err == nil {
			err = os.Remove(s.File)
		}
	case !c.Nothing():
		err = s.write(&c)
	}
	if err == nil && old != nil {
		err = os.Remove(s.Record)
	}
	return c, err
}

// plan computes the configuration without the runtimes. This is the recorded text if the user has made no later changes and the
// engine can start with that text.
func (s *Setup) plan(c *Change, old *record) (err error) {
	if c.After, err = s.Engine.remove(c.Before, old, s); err != nil {
		return fmt.Errorf("%w %s: %w", ErrBadFile, s.File, err)
	}
	if old != nil && s.untouched(c.Before, old.Before) && (s.Engine.canStart == nil || s.Engine.canStart(s, old.Before)) {
		c.After = old.Before
	}
	return nil
}

// untouched reports whether text is exactly the result of adding the runtimes to before, with or without a default runtime: nothing else
// has changed since then.
func (s *Setup) untouched(text, before []byte) bool {
	for _, isDefault := range []bool{false, true} {
		then := *s
		then.Default = isDefault
		if again, err := s.Engine.add(before, &then); err == nil && bytes.Equal(again, text) {
			return true
		}
	}
	return false
}

// isEmpty reports whether a text contains no settings.
func isEmpty(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || string(text) == "{}"
}

// write replaces the content of the file. The owner and the mode of the file do not change. If the file is a symbolic link, write follows
// the link. It returns an error if another program has changed the file since the read.
func (s *Setup) write(c *Change) error {
	file, err := filepath.EvalSymlinks(s.File)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = s.File, fileio.MakeDirs(filepath.Dir(s.File))
	}
	if err != nil {
		return err
	}
	next, err := renameio.NewPendingFile(file, renameio.WithPermissions(0o644), renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer next.Cleanup()
	if err = giveOwner(next.File, file); err == nil {
		_, err = next.Write(c.After)
	}
	if err == nil {
		err = s.unchanged(c)
	}
	if err == nil {
		err = next.CloseAtomicallyReplace()
	}
	return err
}

// giveOwner gives the new file the owner of the file that will be replaced, if that file exists.
func giveOwner(next *os.File, file string) error {
	var st unix.Stat_t
	err := unix.Stat(file, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "stat", Path: file, Err: err}
	}
	return next.Chown(int(st.Uid), int(st.Gid))
}

// unchanged returns an error if the file has changed since it was read for c.
func (s *Setup) unchanged(c *Change) error {
	text, _, err := s.read()
	if err == nil && !bytes.Equal(text, c.Before) {
		err = fmt.Errorf("%w %s: another process has just changed it: nothing was written; repeat the command", ErrBadFile, s.File)
	}
	return err
}

// load reads the record; nil if there is none. A record of another configuration file is an error.
func (s *Setup) load() (*record, error) {
	r, err := s.readRecord()
	if err == nil && r != nil && r.File != s.File {
		return nil, fmt.Errorf("%w %s: %s was set up before: undo that first with --undo", ErrBadFile, s.File, r.File)
	}
	return r, err
}

// readRecord is like load, but also returns the record of a setup with another configuration file.
func (s *Setup) readRecord() (*record, error) {
	text, err := fileio.Read(s.Record, 2*maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := new(record)
	if err == nil {
		err = fileio.DecodeStrict(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: correct the file, or remove it", s.Record, err)
	}
	return r, nil
}

func (s *Setup) save(r *record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = fileio.MakeDirs(filepath.Dir(s.Record))
	}
	if err != nil {
		return err
	}
	// Other users cannot read the record, because they may not be allowed to read the engine's file.
	return renameio.WriteFile(s.Record, append(text, '\n'), 0o600)
}
