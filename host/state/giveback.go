package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// giveBackFile marks a state whose containers are being given back to their engines. It is a symbolic link whose target is the
// kernel's boot ID as text. A link needs no block, so it also works on a full tmpfs, and the kernel creates the link and its text
// atomically.
func (s Store) giveBackFile() string { return filepath.Join(s.Dir, "giving-back") }

// MarkGiveBack marks the state for IsGivingBack. The mark counts until the next boot, or until UnmarkGiveBack or Remove. On a file system
// without a free inode, MarkGiveBack sets no mark and returns no error, because only Remove can free inodes there.
func (s Store) MarkGiveBack(boot string) error {
	if s.IsGivingBack(boot) {
		return nil
	}
	err := os.Remove(s.giveBackFile()) // of another boot
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Symlink(boot, s.giveBackFile())
	}
	if err != nil && !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// IsGivingBack reports whether MarkGiveBack has marked the state in this boot.
func (s Store) IsGivingBack(boot string) bool {
	marked, err := os.Readlink(s.giveBackFile())
	return err == nil && marked == boot
}

// UnmarkGiveBack removes the mark. existed reports whether there was a mark.
func (s Store) UnmarkGiveBack() (existed bool, err error) {
	err = os.Remove(s.giveBackFile())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Remove removes all files of the state, and then the directory. The caller must hold the lock. After an interrupted Remove, the next
// GiveBack must find the same values, or no container. So Remove first removes the request files, because they name the containers if
// there is no state file, and do not have the limits of later updates. It removes the state file before the requests of the engines.
// If the directory has other files or is a mount point, the directory remains.
func (s Store) Remove() error {
	for _, name := range []string{
		"requests", "state.json", ".state.json", "state.json.bad", "commands", "engine-requests", "views", "preserved",
		"bundles", "kept", "engine-names.json", ".engine-names.json", "weight-scales.json", ".weight-scales.json", "agent", "giving-back", "lock",
	} {
		if err := os.RemoveAll(filepath.Join(s.Dir, name)); err != nil {
			return fmt.Errorf("state: %w", err)
		}
	}
	_ = os.Remove(s.Dir) // fails for a directory with other files and for a mount point
	return nil
}
