// Package engine configures container engines for Candor: it adds candor's OCI runtimes to the configuration file of an engine,
// keeps the rest of the file, and removes the runtimes again. It never writes a file that the engine could not read.
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

// A Setup describes a change and its files.
type Setup struct {
	Engine   Engine
	File     string    // the engine's configuration; links are followed
	Record   string    // file with the former text
	Runtimes []Runtime // the first is the runtime for Default
	Default  bool      // make it the engine's default
}

// An Engine is a container engine that this package can configure.
type Engine struct {
	Name string // docker, podman, containerd
	File string // its configuration, unless another is named
	Then string // next step: makes the engine read the file

	// add returns the configuration with the runtimes, or the fault of the text.
	add func(text []byte, s *Setup) ([]byte, error)
	// has reports whether a configuration contains any of the runtimes.
	has func(text []byte, s *Setup) (bool, error)
	// remove removes the runtimes. before is the record of the first setup; nil if it is lost.
	remove func(text []byte, before *record, s *Setup) ([]byte, error)
	// canStart reports whether a former text can be restored: not if its default is a runtime of candor that it lacks. nil:
	// remove has refused such a text.
	canStart func(s *Setup, text []byte) bool
	// defaults are the paths of default runtimes, for remove.
	defaults [][]string
}

// ErrBadFile is a configuration that cannot be read, or that has other settings for candor's runtimes. It was not changed.
var ErrBadFile = errors.New("engine's configuration")

// A Change is a change of the file that was made or planned.
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

// record is the file from before the first setup.
type record struct {
	File   string `json:"file"`
	Before []byte `json:"before"`
	Made   bool   `json:"made"` // there was none
}

// read returns the engine's configuration; a missing file is empty.
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

// Apply adds the runtimes; dry only returns the change.
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
	if dry || c.Nothing() {
		return c, nil
	}
	old, err := s.load()
	if err != nil {
		return c, err
	}
	has, err := s.has(text)
	if err == nil && (old == nil || !has) { // an old record is not of this text
		err = s.save(&record{s.File, text, missing})
	}
	if err != nil {
		return c, err
	}
	if err = s.write(&c); err != nil && !has { // there is no runtime to remove
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

// Undo removes the runtimes. Later changes of the user stay.
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

// plan computes the file without the runtimes.
func (s *Setup) plan(c *Change, old *record) (err error) {
	if c.After, err = s.Engine.remove(c.Before, old, s); err != nil {
		return fmt.Errorf("%w %s: %w", ErrBadFile, s.File, err)
	}
	if old != nil && s.untouched(c.Before, old.Before) && (s.Engine.canStart == nil || s.Engine.canStart(s, old.Before)) {
		c.After = old.Before
	}
	return nil
}

// untouched reports whether a text is the result of a setup on the former text, without later changes.
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

// isEmpty reports whether a file has no settings.
func isEmpty(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || string(text) == "{}"
}

// write replaces the file, which keeps its owner and mode. It follows a symbolic link. A change by another program since the
// read is an error.
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

// giveOwner gives a file the owner of the file that it replaces, if there is one.
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

// unchanged refuses a change if the file differs from its content at the read.
func (s *Setup) unchanged(c *Change) error {
	text, _, err := s.read()
	if err == nil && !bytes.Equal(text, c.Before) {
		err = fmt.Errorf("%w %s: another process has just changed it: nothing was written; repeat the command", ErrBadFile, s.File)
	}
	return err
}

// load reads the record; nil if there is none.
func (s *Setup) load() (*record, error) {
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
	if r.File != s.File {
		return nil, fmt.Errorf("%w %s: %s was set up before: undo that first with --undo", ErrBadFile, s.File, r.File)
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
	// Not for all to read: neither may the engine's file be.
	return renameio.WriteFile(s.Record, append(text, '\n'), 0o600)
}
