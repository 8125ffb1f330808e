package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// When make builds candor, the linker sets these variables. go install and go build leave them empty; candor then takes the values from the
// build information.
var (
	version = ""
	commit  = "" // hash of the commit in hexadecimal
	date    = "" // date of the commit in RFC 3339
)

// A versionReport is the output of candor version -o json.
type versionReport struct {
	Version string `json:"version"` // a release such as v0.2.0, or the description of a commit
	Commit  string `json:"commit"`  // "": unknown
	Date    string `json:"date"`    // time of the commit, in RFC 3339 and UTC; "": unknown
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	// Versions of the state file that this candor reads, and the version that it writes while no container uses a feature of
	// Features. While a container uses such a feature, candor writes the highest version of Reads, which the previous release
	// cannot read.
	State struct {
		Reads    []int    `json:"reads"`
		Writes   int      `json:"writes"`
		Features []string `json:"features"`
	} `json:"state"`
	// Versions of the custom resources that candor reads and writes, such as candor.dev/v1alpha1.
	APIVersions []string `json:"apiVersions"`
}

const versionLong = `Print the version of candor.

-o json adds the commit, its date, the versions of the state file that this candor reads,
and the version that it usually writes. It also lists the features for which candor writes
a higher version, and the API versions of its custom resources.`

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    versionLong,
		Example: "  candor version\n  candor version -o json",
		Args:    noArgs,
	}
	output := outputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if output.value == "json" {
			return writeJSON(cmd.OutOrStdout(), newVersionReport())
		}
		_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
		return err
	}
	return cmd
}

func newVersionReport() versionReport {
	r := versionReport{
		Version: versionString(), Commit: commit, Date: utc(date),
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		APIVersions: []string{v1alpha1.GroupVersion.String()},
	}
	for v := state.OldestVersion; v <= state.FeatureVersion; v++ {
		r.State.Reads = append(r.State.Reads, v)
	}
	r.State.Writes = state.Version
	for _, f := range state.Features {
		r.State.Features = append(r.State.Features, string(f))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && r.Commit == "":
				r.Commit = s.Value
			case s.Key == "vcs.time" && r.Date == "":
				r.Date = utc(s.Value)
			}
		}
	}
	return r
}

// utc converts a time in RFC 3339 to UTC. It returns any other text unchanged.
func utc(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return t.UTC().Format(time.RFC3339)
}

// addVersionFlag adds --version to the root command. It has no short form, because -v means --verbose in the subcommands.
func addVersionFlag(root *cobra.Command) {
	root.Version = versionString()
	root.SetVersionTemplate(versionLine())
	root.Flags().Bool("version", false, "print the version")
}

func versionLine() string {
	return fmt.Sprintf("candor %s (%s %s/%s)\n", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionString returns the release, or the revision from the build information.
func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}
