package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/doctor"
	"github.com/candor-project/candor/cmd/candor/internal/support"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
)

const supportLong = `Write an archive for the report of a problem: the checks of candor doctor, the CPU map,
the topology, the state, the configuration and the end of the log of candor nri. The
archive contains neither the arguments nor the environment of containers. --anonymize
also replaces the names of containers, pods, namespaces, cgroups and this machine.

With the files topology.json and plan.jsonl of the archive, candor plan replays the
containers of this machine on another machine. The command writes only the archive.`

const supportExample = `  candor support
  candor support --anonymize --file problem.tar.gz
  kubectl -n candor-system logs candor-x7k2p >nri.log && candor support --log nri.log

  # Replay the containers of the archive elsewhere
  tar xzf problem.tar.gz && cd candor-support
  candor plan --machine topology.json plan.jsonl`

func newSupportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "support",
		Short:   "Write an archive for the report of a problem",
		Long:    supportLong,
		Example: supportExample,
		Args:    noArgs,
	}
	machine := addHostFlags(cmd)
	flags := cmd.Flags()
	file := flags.StringP("file", "f", "", "archive to create; - is standard output (default: candor-support-TIME.tar.gz)")
	log := flags.String("log", "", "file with the log of candor nri (default: the journal of the unit candor-nri)")
	anonymize := flags.Bool("anonymize", false, "replace names; each name has the same replacement in the whole archive")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := machine.support(cmd, *log)
		if err != nil {
			return err
		}
		if *file == "-" {
			return support.Write(cmd.OutOrStdout(), c, *anonymize)
		}
		name := cmp.Or(*file, "candor-support-"+c.Created.UTC().Format("20060102-150405")+".tar.gz")
		if err := writeNewFile(name, func(w io.Writer) error { return support.Write(w, c, *anonymize) }); err != nil {
			return err
		}
		return reportSupport(cmd.OutOrStdout(), name, c, *anonymize)
	}
	return cmd
}

// support reads the contents of the archive. A part that cannot be read is missing in the archive.
func (f *hostFlags) support(cmd *cobra.Command, log string) (*support.Contents, error) {
	noDir := f.useNodeStateDir(cmd, doctor.DefaultNRIConfig)
	report := doctor.Run(newSystem(&f.options, f.driver.value), nil)
	c := &support.Contents{Candor: versionString(), Created: time.Now(), Doctor: &report, Missing: map[string]string{}}
	c.Host, _ = os.Hostname()
	add := func(part string, read func() error) {
		if err := read(); err != nil {
			c.Missing[part] = errorLine(err)
		}
	}
	add("nri.log", func() (err error) {
		c.Log, err = support.ReadLog(cmd.Context(), log)
		return err
	})
	if log != "" && c.Log == nil {
		return nil, badInput("--log: %s", c.Missing["nri.log"])
	}
	add("topology.json", func() (err error) { c.Topology, err = host.ReadMachine(); return err })
	add("host.json", func() error {
		options, err := host.LoadOptions(f.options.Config)
		if err == nil {
			c.Options = &options
		}
		return err
	})
	add("nri.json", func() (err error) { c.NRI, err = support.ReadNRI(doctor.DefaultNRIConfig); return err })
	for part, read := range map[string]func() error{
		"state.json": func() (err error) { c.State, err = state.NewStore(f.options.StateDir).Load(); return err },
		"map.json":   func() (err error) { c.Map, err = f.supportMap(cmd); return err },
	} {
		if noDir != nil {
			read = func() error { return noDir }
		}
		add(part, read)
	}
	return c, nil
}

// supportMap returns the CPU map of this machine.
func (f *hostFlags) supportMap(cmd *cobra.Command) (*cpumap.Document, error) {
	h, err := f.openToLook(cmd)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	s, err := h.Snapshot()
	if err != nil {
		return nil, err
	}
	m := cpumap.FromNode(s.Node)
	m.Names, m.SeenCPUs = s.DisplayNames(), seenBy(h, s.Grants)
	if m.Foreign, err = foreignContainers(&f.options, s.Grants); err != nil {
		return nil, err
	}
	if err := addGroups(m, h, s); err != nil {
		return nil, err
	}
	return m.Document(), nil
}

// writeNewFile creates a file that only its owner can read. It refuses an existing file, and removes the file after an error.
func writeNewFile(name string, write func(io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return badInput("--file %s: it exists: must be a new file", name)
	case err != nil:
		return badInput("--file: %w", err)
	}
	err = write(file)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(name)
	}
	return err
}

// reportSupport names the archive, and the parts that are missing in it.
func reportSupport(w io.Writer, name string, c *support.Contents, anonymized bool) error {
	fmt.Fprintf(w, "Wrote %s.", name)
	if !anonymized {
		fmt.Fprint(w, " It has the names of containers, pods, namespaces and cgroups; --anonymize replaces them.")
	}
	fmt.Fprintln(w)
	for _, part := range slices.Sorted(maps.Keys(c.Missing)) {
		fmt.Fprintf(w, "Missing: %s: %s\n", part, c.Missing[part])
	}
	return nil
}
