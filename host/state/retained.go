package state

import (
	"os"
	"path/filepath"
	"time"

	"github.com/candor-project/candor/internal/fileio"
)

// retainedFile is the content of kept/NAME: the grant of a container whose OCI runtime has deleted it. If the file is
// lost, the container is planned as a new container.
type retainedFile struct {
	Boot    string    `json:"boot"`
	UntilMs int64     `json:"untilMs"` // since boot
	Grant   fileGrant `json:"grant"`
}

// RetainedFile returns the path of the file that retains the grant of a container. If the name is empty, it returns the directory
// of these files.
func (s Store) RetainedFile(name string) string { return filepath.Join(s.Dir, "kept", name) }

// Retain stores the grant of a deleted container. The method Retained returns this grant until the time since boot exceeds the
// argument until.
func (s Store) Retain(boot string, until time.Duration, g *Grant) error {
	text, err := fileio.JSONText(retainedFile{boot, until.Milliseconds(), newFileGrant(g)})
	if err == nil {
		err = fileio.MakeDir(filepath.Dir(s.RetainedFile(g.ID)))
	}
	if err == nil {
		err = fileio.Replace(s.RetainedFile(g.ID), text)
	}
	return err
}

// Retained returns the grants that are still retained at the time now, measured since boot. It removes files that have expired, that belong
// to another boot, or that cannot be read.
func (s Store) Retained(boot string, now time.Duration) []Grant {
	var retained []Grant
	entries, _ := os.ReadDir(s.RetainedFile(""))
	for _, entry := range entries {
		if g, ok := s.readRetained(entry.Name(), boot, now); ok {
			retained = append(retained, g)
		} else {
			os.Remove(s.RetainedFile(entry.Name()))
		}
	}
	return retained
}

func (s Store) readRetained(name, boot string, now time.Duration) (g Grant, ok bool) {
	var file retainedFile
	text, err := fileio.ReadNoLink(s.RetainedFile(name), 1<<20)
	if err == nil {
		err = fileio.DecodeStrict(text, &file)
	}
	if err != nil || file.Boot != boot || file.UntilMs < now.Milliseconds() {
		return g, false
	}
	g, err = file.Grant.grant()
	return g, err == nil && g.ID == name
}
