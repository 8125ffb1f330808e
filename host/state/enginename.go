package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/candor-project/candor/internal/fileio"
)

// If an engine runs a container in a cgroup of Candor, the container has a name in the engine, such as web for docker run --name web.
// Earlier versions refuse a state file with such a name. Therefore a separate file, engine-names.json, holds these names by the IDs of the
// containers. An engine generates these IDs, so another container cannot have the ID later. The names are for display only: without the
// file, Candor displays the IDs.

// engineNamesFile is the content of engine-names.json.
type engineNamesFile struct {
	Names map[string]string `json:"names"`
}

func (s Store) engineNamesFile() string { return filepath.Join(s.Dir, "engine-names.json") }

// isNameOnly reports whether e holds nothing but a name: the container has a cgroup of Candor.
func (e *Engine) isNameOnly() bool { return *e == Engine{Name: e.Name} }

// storedName returns a name as it reads back from engine-names.json.
func storedName(name string) string {
	if !utf8.ValidString(name) {
		return ""
	}
	return name
}

// addEngineNames sets the stored names of grants that have no engine in the state file.
func (s Store) addEngineNames(grants []*Grant) {
	var file engineNamesFile
	text, err := fileio.ReadNoLink(s.engineNamesFile(), MaxSize)
	if err != nil || fileio.DecodeStrict(text, &file) != nil {
		return
	}
	for _, g := range grants {
		if name := file.Names[g.ID]; name != "" && g.Engine == (Engine{}) {
			g.Engine.Name = name
		}
	}
}

// saveEngineNames replaces the stored names, if the names of the grants differ.
func (s Store) saveEngineNames(grants []*Grant) error {
	file := engineNamesFile{map[string]string{}}
	for _, g := range grants {
		if name := storedName(g.Engine.Name); name != "" && g.Engine.isNameOnly() {
			file.Names[g.ID] = name
		}
	}
	var err error
	if len(file.Names) == 0 {
		if err = os.Remove(s.engineNamesFile()); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		text := append(compactJSON(file), '\n')
		// An unreadable file differs too.
		if old, _ := fileio.ReadNoLink(s.engineNamesFile(), MaxSize); string(old) != string(text) {
			err = fileio.Replace(s.engineNamesFile(), text)
		}
	}
	if err != nil {
		return fmt.Errorf("names of the engines' containers: %w", err)
	}
	return nil
}
