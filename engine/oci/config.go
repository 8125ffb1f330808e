package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/internal/wholefile"
)

const (
	configName = "config.json"
	asGiven    = "config.candor.json" // the engine's configuration, beside the edited one
	editedKey  = "candor.dev/edited"  // annotation of a configuration that was edited
	maxConfig  = 16 << 20             // bytes
)

// A config is a container's configuration (opencontainers/runtime-spec), as the engine
// has written it.
type config struct {
	bundle string
	raw    []byte
	all    object
	linux  object
	cpu    object // linux.resources.cpu

	annotations map[string]string
	environ     []string
	args        []string
	groupPath   string // linux.cgroupsPath
}

// loadConfig reads the configuration of a bundle. One that Candor has edited for an
// earlier start is read as it was given.
func loadConfig(bundle string) (*config, error) {
	c, err := readConfig(bundle, configName)
	if err == nil && c.annotations[editedKey] != "" {
		c, err = readConfig(bundle, asGiven)
	}
	return c, err
}

func readConfig(bundle, name string) (*config, error) {
	file := filepath.Join(bundle, name)
	raw, err := wholefile.Read(file, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: want a bundle with a configuration", err)
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

// parseConfig reads of a configuration what Candor decides by.
func parseConfig(raw []byte) (*config, error) {
	c := &config{raw: raw}
	var err error
	if c.all, err = parseObject(raw); err != nil {
		return nil, err
	}
	if c.linux, err = c.all.inner("linux"); err != nil {
		return nil, err
	}
	resources, err := c.linux.inner("resources")
	if err != nil {
		return nil, err
	}
	if c.cpu, err = resources.inner("cpu"); err != nil {
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

// An amount is the CPU time that linux.resources.cpu, or an update, names.
type amount struct {
	Quota  int64  `json:"quota"`  // microseconds per period; 0: not told, -1: none
	Period uint64 `json:"period"` // microseconds; 0: not told
	CPUs   string `json:"cpus"`
	Mems   string `json:"mems"`
}

// amountOf reads it.
func amountOf(cpu object) (a amount, err error) {
	for key, into := range map[string]any{"quota": &a.Quota, "period": &a.Period, "cpus": &a.CPUs, "mems": &a.Mems} {
		if err := cpu.get(key, into); err != nil {
			return a, fmt.Errorf("linux.resources.cpu.%w", err)
		}
	}
	return a, nil
}

// period returns the period as a duration, or what there is without one.
func (a *amount) period(otherwise time.Duration) time.Duration {
	if a.Period == 0 || a.Period > 1e12 { // what is too long is refused as that
		if a.Period != 0 {
			return time.Hour
		}
		return otherwise
	}
	return time.Duration(a.Period) * time.Microsecond
}

// mounted reports whether a file system is mounted at a place inside the container, so
// that a file can be mounted over one of its own, and no such mount reaches the host.
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
