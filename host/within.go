package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Within calls do with a container's grant while no other operation can begin: for who
// writes the container's group beside Candor, as an OCI runtime does at an update. What the
// grant says is true of all groups before do is called, and made true again after it, also where do
// has written something else. The error is Candor's alone; where do was not called it says why.
func (h *Host) Within(ctx context.Context, name string, do func(*Grant)) error {
	isDone := false
	return h.operate(ctx, func(op *operation) error {
		if op.info[name] == nil {
			return unknown(name)
		}
		op.subject = name
		if err := op.finish(); err != nil {
			return err
		}
		for _, g := range op.grants() {
			if g.ID == name && !isDone { // an operation may be tried again
				isDone = true
				now := *g
				do(&now)
			}
		}
		var err error
		if op.groups, err = op.observe(); err != nil {
			return err
		}
		op.observeEngines()
		op.assumeUnreadable()
		return nil
	})
}

// BundleDir is the directory from which a runtime makes a container: its creator writes it once the
// container has its grant, or its CPUs are preserved.
func (h *Host) BundleDir(name string) string { return filepath.Join(h.store.dir, "bundles", name) }

// SweepBundles removes the bundles of containers that are no more, or were never made, whoever has left them.
func (h *Host) SweepBundles(ctx context.Context) error {
	return h.operate(ctx, func(op *operation) error {
		entries, err := os.ReadDir(op.BundleDir(""))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, entry := range entries {
			if op.info[entry.Name()] != nil {
				continue
			}
			if p, ok := op.store.loadPreserved(entry.Name()); ok && p.By.Alive() {
				continue
			}
			if err := os.RemoveAll(op.BundleDir(entry.Name())); err != nil {
				return err
			}
		}
		return nil
	})
}
