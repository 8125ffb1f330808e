package main

import (
	"context"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/engine/client"
	"github.com/candor-project/candor/experiment"
)

// imageFlags are those of a workload in an image.
type imageFlags struct {
	image       string
	engine      choice
	engineFlags string
	found       *experiment.Image // once it was looked for
}

func (f *imageFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.image, "image", "", "image of the container to run; words after -- are its arguments")
	f.engine = choice{"", client.Names}
	wordFlag(cmd, &f.engine, client.Names, "engine", "", "container engine (default: the first that answers)")
	flags.StringVar(&f.engineFlags, "engine-flags", "", "more flags of the engine's create, such as '-v /data:/data'")
}

// put adds the image to a workload, if --image is set. It checks the engine and the image before the first run.
func (f *imageFlags) put(w *experiment.Workload) error {
	if f.image == "" {
		if f.engine.value != "" || f.engineFlags != "" {
			return badInput("--engine and --engine-flags are for --image IMAGE")
		}
		return nil
	}
	if f.found == nil {
		image, err := f.find()
		if err != nil {
			return experimentError(err)
		}
		f.found = image
	}
	w.Image = f.found
	return nil
}

func (f *imageFlags) find() (*experiment.Image, error) {
	words, err := splitWords(f.engineFlags)
	if err == nil {
		err = client.CheckFlags(words)
	}
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	e, err := client.Find(ctx, f.engine.value)
	if err != nil {
		return nil, err
	}
	return &experiment.Image{Name: f.image, Flags: words, Engine: *e}, e.CheckImage(ctx, f.image)
}

// splitWords splits words as a shell reads them.
func splitWords(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	out, err := exec.Command("/bin/sh", "-c", "printf '%s\\0' "+text).Output()
	if err != nil {
		return nil, badInput("no words that a shell can read: %.60q", text)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}
