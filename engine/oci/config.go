package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/candor-project/candor/internal/fileio"
)

const maxConfig = 16 << 20 // bytes

// A config is a container's configuration (opencontainers/runtime-spec), as the engine
// has written it.
type config struct {
	bundle    string // absolute
	all       object
	linux     object
	resources object // linux.resources

	annotations map[string]string
	environ     []string
	args        []string
	groupPath   string // linux.cgroupsPath
}

// loadConfig reads the configuration from the named file of a bundle.
func loadConfig(bundle, name string) (*config, error) {
	bundle, err := filepath.Abs(bundle)
	if err != nil {
		return nil, err
	}
	file := name
	if !filepath.IsAbs(name) {
		file = filepath.Join(bundle, name)
	}
	raw, err := fileio.Read(file, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; the bundle must have a configuration", err)
	}
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c.bundle = bundle
	return c, nil
}

// parseConfig parses the parts of a configuration that Candor uses.
func parseConfig(raw []byte) (*config, error) {
	c := new(config)
	var err error
	if c.all, err = parseObject(raw); err != nil {
		return nil, err
	}
	if c.linux, err = c.all.inner("linux"); err != nil {
		return nil, err
	}
	if c.resources, err = c.linux.inner("resources"); err != nil {
		return nil, err
	}
	process, err := c.all.inner("process")
	if err != nil {
		return nil, err
	}
	for _, field := range []struct {
		of   object
		key  string
		into any
	}{
		{c.all, "annotations", &c.annotations},
		{c.linux, "cgroupsPath", &c.groupPath},
		{process, "env", &c.environ},
		{process, "args", &c.args},
	} {
		if err := field.of.get(field.key, field.into); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// mounted reports whether the configuration mounts a file system at a path, and the mount is not shared. Candor can then mount
// a file over a file of this file system, and that mount does not reach the host.
func (c *config) mounted(at string) bool {
	var mounts []mount
	if c.all.get("mounts", &mounts) != nil {
		return false
	}
	found := false
	for _, m := range mounts {
		if filepath.Clean(m.Destination) == at {
			found = !slices.ContainsFunc(m.Options, func(o string) bool { return strings.TrimPrefix(o, "r") == "shared" })
		}
	}
	return found
}

// hasMount reports whether the configuration mounts something at a path.
func (c *config) hasMount(at string) bool {
	var mounts []mount
	return c.all.get("mounts", &mounts) == nil && slices.ContainsFunc(mounts, func(m mount) bool { return filepath.Clean(m.Destination) == at })
}

// add appends values to the array in a field.
func add(o object, key string, values ...any) error {
	var array []json.RawMessage
	if err := o.get(key, &array); err != nil {
		return err
	}
	for _, v := range values {
		raw, err := encode(v)
		if err != nil {
			return err
		}
		array = append(array, raw)
	}
	o.set(key, array)
	return nil
}
