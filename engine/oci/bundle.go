package oci

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/candor-project/candor/internal/fileio"
)

const configName = "config.json"

// A bundle is a directory of Candor from which the real runtime creates a container: STATE/bundles/NAME, with the edited
// configuration. Candor never writes the engine's bundle, because the engine's user can edit that bundle and create other
// containers from it.
type bundle string

// save writes an edited configuration. Only its owner can read the file, because it can hold secrets.
func (b bundle) save(c *config) error {
	if err := c.makeAbsolute(); err != nil {
		return err
	}
	text, err := encode(c.all)
	if err != nil {
		return err
	}
	err = fileio.MakeDirs(filepath.Dir(string(b)))
	if err == nil {
		err = os.MkdirAll(string(b), 0o700)
	}
	if err == nil {
		err = renameio.WriteFile(filepath.Join(string(b), configName), text, 0o600)
	}
	return err
}

// remove removes the bundle of a container that was deleted or not created.
func (b bundle) remove() error { return os.RemoveAll(string(b)) }

// in returns the command line of create or run with Candor's bundle instead of the engine's.
func (b bundle) in(c *Call) []string {
	return c.without([]string{"bundle", "b", "config", "f"}, "--bundle", string(b))
}

// make lets the real runtime create the container. For run, the real runtime replaces this process, because run lasts as long
// as the container and can use the terminal.
func (b bundle) make(c *Call, real string) (code int, err error) {
	if c.Command == "run" {
		return 0, become(real, b.in(c))
	}
	return call(context.Background(), real, b.in(c), os.Stdin)
}

// makeAbsolute makes the paths of files outside of the container absolute, because they can be relative to the engine's bundle.
func (c *config) makeAbsolute() error {
	root, err := c.all.inner("root")
	if err != nil {
		return err
	}
	var path string
	if err := root.get("path", &path); err != nil {
		return fmt.Errorf("root.%w", err)
	}
	if path != "" && !filepath.IsAbs(path) {
		root.set("path", filepath.Join(c.bundle, path))
		c.all.set("root", root)
	}
	var mounts []object
	if err := c.all.get("mounts", &mounts); err != nil {
		return err
	}
	for _, m := range mounts {
		if err := c.makeSourceAbsolute(m); err != nil {
			return fmt.Errorf("mounts: %w", err)
		}
	}
	if mounts != nil {
		c.all.set("mounts", mounts)
	}
	return nil
}

// makeSourceAbsolute makes the source of a bind mount absolute. The source of another mount is not a path.
func (c *config) makeSourceAbsolute(m object) error {
	var is mount
	text, err := encode(m)
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	if err == nil && is.isBind() && is.Source != "" && !filepath.IsAbs(is.Source) {
		m.set("source", filepath.Join(c.bundle, is.Source))
	}
	return err
}
