package fileio

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// A File is a file that WriteFolder writes into a directory.
type File struct {
	Name  string
	Write func(io.Writer) error
}

// WriteFolder writes files into an existing directory. It replaces each file atomically, but not all files at once.
func WriteFolder(dir string, files []File) error {
	for _, file := range files {
		to, err := renameio.NewPendingFile(filepath.Join(dir, file.Name), renameio.WithPermissions(0o644))
		if err != nil {
			return err
		}
		err = file.Write(to)
		if err == nil {
			err = to.CloseAtomicallyReplace()
		}
		if err = errors.Join(err, to.Cleanup()); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, file.Name), err)
		}
	}
	return nil
}
