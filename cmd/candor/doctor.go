package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/doctor"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/kube/apiserver"
)

const doctorLong = `Check whether Candor works on this machine: kernel, cgroups, container runtime, kubelet,
engines, programs that also manage CPUs, and Candor itself. For each finding that needs an
action, the command prints the next step. It only reads, and needs no setup.

A check has the status ok, warning (Candor works with a restriction), failed (Candor does
not work yet) or unknown (the check could not read a file; most often it needs root).
The exit code is 1 if a check failed.`

const doctorExample = `  candor doctor
  candor doctor --for kubernetes
  candor doctor --check nri-enabled -o json | jq -r '.checks[].status'`

func newDoctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Check whether Candor works on this machine",
		Long:    doctorLong,
		Example: doctorExample,
		Args:    noArgs,
	}
	output := outputFlag(cmd, "table", "wide", "json")
	use := &choice{of: doctor.Uses()}
	wordFlag(cmd, use, use.of, "for", "", "way to use Candor (default: all)")
	only := cmd.Flags().StringSlice("check", nil, "`ID` of a check to run, such as nri-enabled (default: all checks)")
	complete(cmd, "check", doctor.IDs())
	kubeconfig := cmd.Flags().String("kubeconfig", "", "kubeconfig, to check Candor's versions in the cluster (default: $KUBECONFIG)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkDoctorIDs(*only); err != nil {
			return err
		}
		options, driver := defaultHostOptions()
		if dir, err := nodeStateDir(doctor.DefaultNRIConfig); err == nil { // the check nri-config reports the error
			options.StateDir = cmp.Or(os.Getenv("CANDOR_STATE_DIR"), dir)
		}
		s := newSystem(&options, driver)
		s.For = doctor.Use(use.value)
		if err := connectTo(s, *kubeconfig); err != nil {
			return err
		}
		r := doctor.Run(s, *only)
		var err error
		if output.value == "json" {
			err = writeJSON(cmd.OutOrStdout(), r)
		} else {
			err = writeDoctor(cmd.OutOrStdout(), &r, output)
		}
		if err == nil && r.Status == doctor.Failed {
			err = &exitError{code: exitFailure}
		}
		return err
	}
	return cmd
}

// checkDoctorIDs refuses ids of unknown checks.
func checkDoctorIDs(ids []string) error {
	for _, id := range ids {
		if !slices.Contains(doctor.IDs(), id) {
			return badInput("--check %.60q: must be one of %s", id, strings.Join(doctor.IDs(), ", "))
		}
	}
	return nil
}

// newSystem returns this machine as a doctor.System, with the paths of options and without access to a Kubernetes API server.
func newSystem(options *host.Options, driver string) *doctor.System {
	s := doctor.New("/")
	s.StateDir, s.Config, s.Cgroup, s.Version = options.StateDir, options.Config, options.Cgroup, versionString()
	s.Cgroup.Driver = cgroup.Driver(driver)
	return s
}

// connectTo sets the function with which a system connects to the API server. An invalid file kubeconfig is an error. If
// kubeconfig is "", the function uses the file of $KUBECONFIG. This file is read only when a check connects, so an invalid file
// is an error of that check.
func connectTo(s *doctor.System, kubeconfig string) error {
	options := apiserver.Options{Kubeconfig: kubeconfig, Product: "candor/" + versionString(), Patience: time.Second}
	inherited := os.Getenv("KUBECONFIG")
	switch {
	case kubeconfig != "":
		client, err := apiserver.New(options)
		if err != nil {
			return badInput("--kubeconfig: %s", withoutBadOptions(err))
		}
		s.Connect = func() (*apiserver.Client, error) { return client, nil }
	case inherited != "":
		options.Kubeconfig = inherited
		s.Connect = func() (*apiserver.Client, error) {
			client, err := apiserver.New(options)
			if err != nil {
				return nil, fmt.Errorf("$KUBECONFIG: %s", withoutBadOptions(err))
			}
			return client, nil
		}
	}
	return nil
}

// withoutBadOptions returns the text of an error of apiserver.New without the prefix that all these errors have.
func withoutBadOptions(err error) string {
	text := strings.TrimPrefix(err.Error(), apiserver.ErrBadOptions.Error()+": ")
	return strings.TrimPrefix(text, "--kubeconfig ")
}

// writeDoctor writes the rows as a table. Without -o wide, the next steps are below the table, because they are long.
func writeDoctor(w io.Writer, r *doctor.Report, output *choice) error {
	isWide := output.value == "wide"
	if err := doctorTable(r, isWide).Write(w, tableWidth(w, output)); err != nil {
		return err
	}
	if !isWide {
		writeNextSteps(w, r)
	}
	_, err := fmt.Fprintln(w, "\n"+doctorSummary(r))
	return err
}

// doctorTable returns the table of the rows. withNext adds the next steps.
func doctorTable(r *doctor.Report, withNext bool) *texttable.Table {
	t := &texttable.Table{Titles: []string{"STATUS", "GROUP", "CHECK", "FOUND"}, Ranks: []int{0, 1, 0, 0}, LastWidth: 30}
	if withNext {
		t.Titles, t.Ranks = append(t.Titles, "NEXT STEP"), nil
	}
	for _, row := range r.Checks {
		cells := []string{string(row.Status), row.Group, row.ID, row.Found}
		if withNext {
			cells = append(cells, cmp.Or(row.Next, "-"))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// writeNextSteps writes the next step of each row that has one.
func writeNextSteps(w io.Writer, r *doctor.Report) {
	title := "\nNext steps:\n"
	for _, row := range r.Checks {
		if row.Next != "" {
			fmt.Fprintf(w, "%s  %s: %s\n", title, row.ID, row.Next)
			title = ""
		}
	}
}

// doctorSummary returns the numbers of rows by status, and the checks that could not read a file.
func doctorSummary(r *doctor.Report) string {
	number := map[doctor.Status]int{}
	for _, row := range r.Checks {
		number[row.Status]++
	}
	text := fmt.Sprintf("%s: %d ok, %s, %d failed", count(len(r.Checks), "check", "checks"), number[doctor.OK],
		count(number[doctor.Warning], "warning", "warnings"), number[doctor.Failed])
	if unread := r.Unread(); len(unread) > 0 {
		text += fmt.Sprintf(", %d could not be read: %s", len(unread), strings.Join(unread, ", "))
		if !r.Root {
			text += "; root can read more"
		}
	}
	return text + "."
}
