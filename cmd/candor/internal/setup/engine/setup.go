// Package engine tells a container engine of Candor: it adds candor's OCI
// runtimes to the engine's own configuration file, keeps what is there, and
// takes them out again. A file that the engine itself could not read is never
// written.
package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/fileio"
)

// A Runtime is one that an engine is told of.
type Runtime struct {
	Name string // as users write it: docker run --runtime NAME
	Path string
}

// A Setup is what is to be changed where.
type Setup struct {
	Engine   Engine
	File     string    // the engine's configuration; links are followed
	Record   string    // where the former text is kept
	Runtimes []Runtime // the first is what Default means
	Default  bool      // make it the engine's default
}

// An Engine is one that can be set up.
type Engine struct {
	Name string // docker, podman, containerd
	File string // its configuration, unless another is named
	Then string // how the engine is made to read it

	// add returns a configuration with the runtimes, or what is wrong with the text.
	add func(text []byte, s *Setup) ([]byte, error)
	// has reports whether a configuration has any of what add puts in.
	has func(text []byte, s *Setup) (bool, error)
	// remove takes out what add has put in. before is the record of the first setup; nil if it is lost.
	remove func(text []byte, before *record, s *Setup) ([]byte, error)
	// canStart reports whether a former text may be put back as it was: not if its default is a runtime of candor's that
	// is none then. nil: remove has refused such a one.
	canStart func(s *Setup, text []byte) bool
	// defaults are the places where a default runtime stands, for remove to look at.
	defaults [][]string
}

// ErrBadFile is a configuration that cannot be read, or that says something else of
// candor's runtimes. It was not touched.
var ErrBadFile = errors.New("engine's configuration")

// A Change is what was done, or would be.
type Change struct {
	File   string
	Before []byte
	After  []byte
	Gone   bool // there is no file afterwards
}

// Nothing reports whether all was so already.
func (c *Change) Nothing() bool { return !c.Gone && bytes.Equal(c.Before, c.After) }

const maxFile = 4 << 20 // bytes

// record is what the file was before the first setup.
type record struct {
	File   string `json:"file"`
	Before []byte `json:"before"`
	Made   bool   `json:"made"` // there was none
}

// read returns the engine's configuration; no file is an empty one.
func (s *Setup) read() (text []byte, missing bool, err error) {
	text, err = fileio.Read(s.File, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(s.File); err == nil {
			return nil, false, fmt.Errorf("%w: %s: a link to a file that is not there: want that file made, or the link removed", ErrBadFile, s.File)
		}
		return nil, true, nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrBadFile, err)
	}
	return text, false, err
}

// Apply adds the runtimes; dry only says what it would do.
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
	if err = s.write(&c); err != nil && !has { // there is nothing to take out again
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

// Undo takes the runtimes out again. What somebody else has changed since stays.
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

// plan works out what a file becomes without the runtimes.
func (s *Setup) plan(c *Change, old *record) (err error) {
	if c.After, err = s.Engine.remove(c.Before, old, s); err != nil {
		return fmt.Errorf("%w %s: %w", ErrBadFile, s.File, err)
	}
	if old != nil && s.untouched(c.Before, old.Before) && (s.Engine.canStart == nil || s.Engine.canStart(s, old.Before)) {
		c.After = old.Before
	}
	return nil
}

// untouched reports whether a text is what a setup has made of the former one: nobody
// has changed it since.
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

// isEmpty reports whether nothing is said in a file.
func isEmpty(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || string(text) == "{}"
}

// write replaces the file, which keeps its owner and mode, and stays a link if it is one. What somebody
// else has written since it was read stays.
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

// giveOwner gives a file the owner of the one that it is to replace; where there is none it stays as it is.
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

// unchanged refuses a change of a file that is not what it was when it was read.
func (s *Setup) unchanged(c *Change) error {
	text, _, err := s.read()
	if err == nil && !bytes.Equal(text, c.Before) {
		err = fmt.Errorf("%w %s: somebody else has changed it just now: nothing was written; want the command again", ErrBadFile, s.File)
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
		return nil, fmt.Errorf("%w %s: %s was set up before: want --undo of that first", ErrBadFile, s.File, r.File)
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
