package cgroup

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/kernelfs"
)

// Create creates the group with its settings, and moves the process pid into the group. pid 0 means no process, which the systemd
// driver does not allow. With the cgroupfs driver, the group has all settings before the process enters. With the systemd driver,
// Create writes the settings that systemd does not know after the process has entered. On an error no group remains, and the
// process is in its former group. Create first removes an earlier group of the same name; if that group has processes, the error
// is ErrBusy.
func (g *Group) Create(s Settings, pid int) error {
	if g.err != nil {
		return g.err
	}
	err := s.check()
	if err == nil {
		err = g.refuseForeign()
	}
	if err == nil && pid < 0 {
		err = fmt.Errorf("process ID %d: must be 1 or more, or 0 for none", pid)
	}
	if err == nil {
		if g.tree.driver == Systemd {
			err = g.createScope(s, pid)
		} else {
			err = g.create(s, pid)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot create cgroup %s: %w", g.name, err)
	}
	return nil
}

func (g *Group) create(s Settings, pid int) error {
	g.tree.parentUndo.Store(nil)
	undo, err := g.tree.makeParent()
	if err != nil {
		return err
	}
	if err = g.tree.Claim(); err == nil {
		err = g.removeLeftover()
	}
	if err == nil {
		err = g.createDirs(s, pid)
	}
	if err != nil {
		return errline.Join(err, undo.run())
	}
	g.tree.recordParent(undo)
	return nil
}

// createDirs creates the group's folders, applies the settings and moves the process. Candor's parent group must exist.
func (g *Group) createDirs(s Settings, pid int) (err error) {
	t := g.tree
	var origin []string
	if pid != 0 {
		if origin, err = t.groupDirsOf(pid); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			err = errline.Join(err, g.remove())
		}
	}()
	for _, dir := range g.dirs() {
		if err := makeDir(dir); err != nil {
			return err
		}
	}
	if err := t.Claim(); err != nil { // another state can have claimed the parent group meanwhile
		return err
	}
	if err := g.set(s.kernel(t.cpu)); err != nil {
		return err
	}
	if pid == 0 {
		return nil
	}
	return t.enter(g.dirs(), pid, origin)
}

// makeDir creates a directory that every user can read, regardless of the umask.
func makeDir(dir string) error {
	if err := kernelfs.FaultOf(kernelfs.CreateAccess, dir); err != nil {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// removeLeftover removes an earlier group of the same name. It returns ErrBusy if the earlier group has processes.
func (g *Group) removeLeftover() error {
	ok, err := g.exists()
	if err != nil {
		return err
	}
	if !ok { // a candor process that was killed in remove can have left a folder with the page cache of the earlier group
		g.removeForeignDirs(time.Now().Add(g.tree.remainingTime(removeTimeout)))
		return nil
	}
	if ok, err := g.isPopulated(); err != nil && !isGone(err) {
		return err
	} else if ok {
		return fmt.Errorf("it exists already: %w", ErrBusy)
	}
	return g.remove()
}

// Enter moves a process into the group, and thus below its memory limit. On an error the process is in its former group. The
// error for a missing group is ErrNoGroup.
func (g *Group) Enter(pid int) error {
	if g.err != nil {
		return g.err
	}
	hierarchies, dirs := g.tree.all, g.dirs()
	if h := g.tree.memory; h != nil && !slices.Contains(g.tree.all, h) { // only AddMemory creates the folder there
		if ok, err := isGroup(g.dir(h)); err == nil && ok {
			hierarchies, dirs = append(slices.Clip(hierarchies), h), append(dirs, g.dir(h))
		}
	}
	origin, err := g.tree.groupDirsIn(hierarchies, pid)
	if err == nil {
		err = g.tree.enter(dirs, pid, origin)
	}
	return g.wrap(err)
}

// enter moves a process into the group with the folders dirs. On an error it moves the process back to its former folders (origin). dirs
// and origin have a folder for each hierarchy, in the same order.
func (t *Tree) enter(dirs []string, pid int, origin []string) error {
	for i, dir := range dirs {
		err := attach(dir, pid)
		if err == nil {
			continue
		}
		for j := range i {
			if undoErr := attach(origin[j], pid); undoErr != nil && !isEnded(undoErr) {
				err = errline.Join(err, undoError(undoErr))
			}
		}
		return err
	}
	return nil
}
