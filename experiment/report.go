package experiment

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/interference"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/topology"
)

// A Report is the result of an experiment. It has every run, so that it can be analyzed again.
type Report struct {
	Version   int            `json:"version"`
	Began     time.Time      `json:"began"`
	Machine   Machine        `json:"machine"`
	Name      string         `json:"name,omitempty"`  // of the program
	Image     *Image         `json:"image,omitempty"` // if set, Command holds the arguments of the image
	Command   []string       `json:"command"`
	Server    []string       `json:"server,omitempty"` // if set, Command is the client of the server
	Directory string         `json:"directory"`
	Timeout   float64        `json:"timeout"` // seconds
	Metrics   []ReportMetric `json:"metrics"`
	Setups    []Setup        `json:"setups"`
	Rounds    int            `json:"rounds"` // rounds that were requested
	Seed      uint64         `json:"seed"`
	Stopped   bool           `json:"stopped"`           // the experiment ended early
	Partial   bool           `json:"partial,omitempty"` // same as Stopped, under the name that all commands use
	Runs      []Run          `json:"runs"`              // in the order in which they ran
	// Interference describes the other processes that used the CPUs of the measurement. It is nil if they used at most 10 % of these
	// CPUs.
	Interference *interference.Report `json:"interference,omitempty"`
}

// A ReportMetric is the description of a metric in a report.
type ReportMetric struct {
	Name           string `json:"name"`
	Pattern        string `json:"pattern,omitempty"`
	Unit           string `json:"unit,omitempty"`
	HigherIsBetter bool   `json:"higherIsBetter"`
}

// A Machine is the machine of the runs.
type Machine struct {
	Model    string `json:"model"` // CPU model
	CPUs     int    `json:"cpus"`  // CPUs that the workload could use
	Topology string `json:"topology"`
	Kernel   string `json:"kernel"`
	Load     string `json:"load"` // /proc/loadavg before the experiment
}

const reportVersion = 1

// maxValue is the largest value that a report can have. Pictures of larger values cannot be drawn.
const maxValue = 1e15

func describeMachine(l *Lab) (Machine, error) {
	machine, err := topology.ReadHost()
	if err != nil {
		return Machine{}, err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Machine{}, fmt.Errorf("uname: %w", err)
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return Machine{}, err
	}
	return Machine{
		Model: cmp.Or(procfs.CPUModel(), "unknown"), CPUs: l.usable.Count(), Topology: machine.Description(),
		Kernel: unix.ByteSliceToString(name.Release[:]), Load: strings.TrimSpace(string(load)),
	}, nil
}

// A ReportDocument is the JSON form of a report: the report with the verdicts that follow from its runs.
type ReportDocument struct {
	*Report
	Verdicts []Conclusion `json:"verdicts"`
}

// Write encodes a report as JSON.
func (r *Report) Write(w io.Writer) error {
	return jsonout.Write(w, ReportDocument{r, r.Conclusions()})
}

// ErrBadReport means that a file is not a report, or is from a newer version of Candor.
var ErrBadReport = errors.New("bad report")

// maxReport is the maximum size of a report's file in bytes. The largest experiment writes less.
const maxReport = 256 << 20

// ReadReport reads the file of a report.
func ReadReport(file string) (*Report, error) {
	data, err := fileio.Read(file, maxReport)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrBadReport, file, err)
	}
	r, err := ParseReport(data)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrBadReport, file, err)
	}
	return r, nil
}

// ParseReport parses and checks a report. It ignores the verdicts, which follow from the runs.
func ParseReport(data []byte) (*Report, error) {
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, fmt.Errorf("%w: must be the output of candor compare -o json", err)
	}
	if version.Version != reportVersion {
		return nil, fmt.Errorf("version %d: must be %d", version.Version, reportVersion)
	}
	r := ReportDocument{Report: new(Report)}
	if err := fileio.DecodeStrict(data, &r); err != nil {
		return nil, err
	}
	return r.Report, r.check()
}

// check returns an error if the report contradicts itself.
func (r *Report) check() error {
	if len(r.Command) == 0 && r.Image == nil || len(r.Setups) == 0 || len(r.Metrics) == 0 || r.Rounds < 1 {
		return errors.New("no command, setups, metrics or rounds")
	}
	for i := range r.Setups {
		s := &r.Setups[i]
		if _, err := ParseSetup(s.String(), s.Limit); err != nil || s.Limit < 0 || s.Limit > hybrid.MaxLimit {
			return fmt.Errorf("setup %d: %+v is invalid", i, *s)
		}
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Setup < 0 || run.Setup >= len(r.Setups) {
			return fmt.Errorf("run %d: setup %d: must be 0 to %d", i, run.Setup, len(r.Setups)-1)
		}
		if run.Failure != "" {
			continue
		}
		for _, m := range r.Metrics {
			if v, ok := run.Values[m.Name]; !ok || !(math.Abs(v) <= maxValue) {
				return fmt.Errorf("run %d: no failure, but %s is missing or above %g", i, m.Name, maxValue)
			}
		}
	}
	return nil
}

// Values returns the values of a metric under a setup, with their rounds. It omits warm-up rounds and rounds in which
// an instance failed. For several instances, the value is their mean.
func (r *Report) Values(setup int, metric string) (values []float64, rounds []int) {
	sums, counts, failed := map[int]float64{}, map[int]int{}, map[int]bool{}
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Setup == setup && run.Failure != "" {
			failed[run.Round] = true
		}
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Setup != setup || run.Round < 0 || failed[run.Round] {
			continue
		}
		if counts[run.Round] == 0 {
			rounds = append(rounds, run.Round)
		}
		sums[run.Round] += run.Values[metric]
		counts[run.Round]++
	}
	for _, round := range rounds {
		values = append(values, sums[round]/float64(counts[round]))
	}
	return values, rounds
}

// Failures returns the number of a setup's rounds with a failed run, and the reason of the first failure.
func (r *Report) Failures(setup int) (rounds int, why string) {
	failed := map[int]bool{}
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Setup != setup || run.Round < 0 || run.Failure == "" {
			continue
		}
		if len(failed) == 0 {
			why = run.Failure
		}
		failed[run.Round] = true
	}
	return len(failed), why
}
