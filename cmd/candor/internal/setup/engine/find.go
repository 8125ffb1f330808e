package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"github.com/candor-project/candor/internal/fileio"
)

// programs are the file names under which candor is an OCI runtime.
var programs = []string{"candor-runc", "candor-flexible-runc"}

// FindRuntimes returns the runtimes of candor in the configuration of Docker or Podman. Podman's runtimes are sorted by name. A runtime is
// candor's if its program has the file name candor-runc or candor-flexible-runc. A missing file has no runtimes. The error wraps
// ErrBadFile.
func FindRuntimes(e Engine, file string) (found []Runtime, err error) {
	text, err := fileio.Read(file, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		if e.Name == Docker.Name {
			found, err = dockerRuntimes(text)
		} else {
			found, err = podmanRuntimes(text)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrBadFile, file, err)
	}
	return slices.DeleteFunc(found, func(r Runtime) bool { return !slices.Contains(programs, filepath.Base(r.Path)) }), nil
}

func dockerRuntimes(text []byte) (found []Runtime, err error) {
	_, runtimes, err := readDocker(text)
	for _, r := range runtimes {
		found = append(found, Runtime{r.key, pathOf(r.value)})
	}
	return found, err
}

func podmanRuntimes(text []byte) (found []Runtime, err error) {
	var config struct {
		Engine struct {
			Runtimes map[string][]string `toml:"runtimes"`
		} `toml:"engine"`
	}
	if err := toml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("not TOML: %w", err)
	}
	for name, paths := range config.Engine.Runtimes {
		for _, path := range paths {
			found = append(found, Runtime{name, path})
		}
	}
	slices.SortFunc(found, func(a, b Runtime) int { return slices.Compare([]string{a.Name, a.Path}, []string{b.Name, b.Path}) })
	return found, nil
}
