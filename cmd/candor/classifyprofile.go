package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/pflag"

	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/kube/profile"
)

// profileFlags are those flags of candor classify that are about a CPUProfile.
type profileFlags struct {
	file   string
	labels map[string]string
	images []string
}

func (f *profileFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "profile", "", "CPUProfile manifest to write; the file name names the object")
	flags.StringToStringVar(&f.labels, "labels", nil, "pod labels of the profile's selector, such as app=solver")
	flags.StringArrayVar(&f.images, "profile-image", nil, "image pattern of the profile, such as '*/solver:*'; repeatable")
}

// manifest is the profile with a class; nil if none is asked for.
func (f *profileFlags) manifest(class string) ([]byte, error) {
	if f.file == "" {
		if len(f.labels)+len(f.images) > 0 {
			return nil, badInput("--labels and --profile-image are for --profile FILE")
		}
		return nil, nil
	}
	if len(f.labels)+len(f.images) == 0 {
		return nil, badInput("--profile %s: which pods? want --labels, such as app=solver, or --profile-image", f.file)
	}
	there, err := fileio.Read(f.file, 1<<20)
	switch {
	case err == nil && !profile.IsManifest(there):
		return nil, badInput("--profile %s: there is something else than a CPUProfile: want another name", f.file)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, badInput("--profile: %w", err)
	}
	if _, err := os.Stat(filepath.Dir(f.file)); err != nil {
		return nil, badInput("--profile: %w", err)
	}
	text, err := profile.Manifest(strings.TrimSuffix(filepath.Base(f.file), filepath.Ext(f.file)), f.labels, f.images, class)
	if err != nil {
		return nil, badInput("--profile %s: %w", f.file, err)
	}
	return text, nil
}

// write writes the profile. An existing file keeps its owner and mode.
func (f *profileFlags) write(text []byte) error {
	if _, err := os.Stat(f.file); err == nil {
		return rewrite(f.file, text)
	}
	return renameio.WriteFile(f.file, text, 0o644)
}
