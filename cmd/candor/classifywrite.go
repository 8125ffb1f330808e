package main

import (
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/kube"
)

// texts are the manifest and the profile with a class; nil where none is asked for.
func (f *classifyFlags) texts(class string) (manifest, profile []byte, err error) {
	if f.annotate != "" {
		if manifest, err = f.annotated(class); err != nil {
			return nil, nil, err
		}
	}
	profile, err = f.profile.manifest(class)
	return manifest, profile, err
}

// writeClass writes them.
func (f *classifyFlags) writeClass(class string) error {
	manifest, profile, err := f.texts(class)
	if err == nil && manifest != nil {
		err = rewrite(f.annotate, manifest)
	}
	if err == nil && profile != nil {
		err = f.profile.write(profile)
	}
	return err
}

// rewrite replaces the content of a file, which keeps its owner and mode. It follows a symbolic link.
func rewrite(name string, text []byte) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	var before unix.Stat_t
	if err := unix.Stat(name, &before); err != nil {
		return &os.PathError{Op: "stat", Path: name, Err: err}
	}
	next, err := renameio.NewPendingFile(name, renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer next.Cleanup()
	if err := next.Chown(int(before.Uid), int(before.Gid)); err != nil {
		return err
	}
	if _, err := next.Write(text); err != nil {
		return err
	}
	return next.CloseAtomicallyReplace()
}

// annotated returns the manifest with a class.
func (f *classifyFlags) annotated(class string) ([]byte, error) {
	text, err := fileio.Read(f.annotate, 16<<20)
	if err != nil {
		return nil, badInput("--annotate: %w", err)
	}
	text, err = kube.Annotate(text, kube.PodKey("class"), class)
	if err != nil {
		return nil, badInput("--annotate %s: %w", f.annotate, err)
	}
	return text, nil
}
