package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/view"
)

// A store is the directory that holds the state of this machine:
//
//	lock            taken by every operation
//	state.json      all grants: one plan is one replacement of this file
//	state.json.bad  the last state that could not be read
//	requests/NAME   what a container asked for, for adoption when the state is lost
//	views/NAME/     the files that a container is shown
type store struct{ dir string }

func (s store) lockFile() string           { return filepath.Join(s.dir, "lock") }
func (s store) stateFile() string          { return filepath.Join(s.dir, "state.json") }
func (s store) badFile() string            { return s.stateFile() + ".bad" }
func (s store) view(name string) string    { return filepath.Join(s.dir, "views", name) }
func (s store) request(name string) string { return filepath.Join(s.dir, "requests", name) }

// A brokenState is a state file that cannot be used.
type brokenState struct {
	file string
	err  error
}

func (e *brokenState) Error() string { return fmt.Sprintf("state %s: %v", e.file, e.err) }
func (e *brokenState) Unwrap() error { return e.err }

// prepare makes the directories. What is there already must be the caller's own:
// the files in it say what root's programs are told and run.
func (s store) prepare() error {
	for _, dir := range []string{s.dir, filepath.Join(s.dir, "views"), filepath.Join(s.dir, "requests")} {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("state directory: %w", err)
		}
		var stat unix.Stat_t
		if err := unix.Lstat(dir, &stat); err != nil {
			return fmt.Errorf("state directory: %w", &fs.PathError{Op: "stat", Path: dir, Err: err})
		}
		switch {
		case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
			return fmt.Errorf("state directory %s: not a directory", dir)
		case int(stat.Uid) != os.Geteuid() || stat.Mode&0o022 != 0:
			return fmt.Errorf("state directory %s: belongs to user %d with mode %o; want your own that only you can write",
				dir, stat.Uid, stat.Mode&0o7777)
		}
	}
	return nil
}

// load reads the state. Nothing there is an empty state. An unusable file is a
// *brokenState, one from a later Candor errNewer.
func (s store) load() (state, error) {
	data, err := readBounded(s.stateFile(), maxStateSize)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("state: %w", err)
	}
	loaded, err := decodeState(data)
	if errors.Is(err, errNewer) {
		return state{}, fmt.Errorf("state %s: %w: use that one, or remove the file when no container runs", s.stateFile(), err)
	}
	if err != nil {
		return state{}, &brokenState{s.stateFile(), err}
	}
	return loaded, nil
}

// save replaces the state file. On an error the old one stands.
func (s store) save(st state) error {
	data := st.encode()
	if len(data) > maxStateSize {
		return fmt.Errorf("state %s: %d bytes, more than %d: too many containers", s.stateFile(), len(data), maxStateSize)
	}
	if err := replaceFile(s.stateFile(), data); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// setAside keeps an unusable state file for people.
func (s store) setAside() error {
	if err := os.Rename(s.stateFile(), s.badFile()); err != nil {
		return fmt.Errorf("state: keep the unusable file: %w", err)
	}
	return nil
}

// saveRequest writes what a container asked for beside the state.
func (s store) saveRequest(g *Grant) error {
	if err := replaceFile(s.request(g.ID), encodeLabel(g)); err != nil {
		return fmt.Errorf("request of %s: %w", g.ID, err)
	}
	return nil
}

// loadRequest reads what a container asked for into g, if that is known.
func (s store) loadRequest(g *Grant) (known bool) {
	data, err := readBounded(s.request(g.ID), 1<<16)
	return err == nil && decodeLabel(data, g) == nil
}

// shown returns the CPUs that a container's view shows; none if it has no view.
func (s store) shown(name string) cpuset.Set {
	text, err := readBounded(filepath.Join(s.view(name), "online"), 1<<16)
	if err != nil {
		return cpuset.Set{}
	}
	cpus, _ := cpuset.Parse(strings.TrimRight(string(text), "\n"))
	return cpus
}

// forget removes what belongs to a container that has ended.
func (s store) forget(name string) error {
	if err := os.Remove(s.request(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return view.Remove(s.view(name))
}

// replaceFile puts data in a file's place, wholly or not at all, also when the
// machine stops meanwhile. It is called under the lock: the temporary name has
// one user.
func replaceFile(name string, data []byte) error {
	temp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)) // no container's name begins so
	err := writeSynced(temp, data)
	if err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		os.Remove(temp)
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func writeSynced(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// readBounded reads a regular file of at most limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &brokenState{name, fmt.Errorf("more than %d bytes", limit)}
	}
	return data, err
}
