package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/interference"
	"github.com/candor-project/candor/internal/jsonout"
)

// An IsolationReport is the result of an isolation. It has every run, so that it can be analyzed again.
type IsolationReport struct {
	Kind         string         `json:"kind"` // "isolation"
	Version      int            `json:"version"`
	Began        time.Time      `json:"began"`
	Machine      Machine        `json:"machine"`
	Directory    string         `json:"directory"`
	Tmp          string         `json:"tmp"`
	FileSystem   string         `json:"fileSystem"` // type of the file system of Tmp
	Split        Split          `json:"split"`
	Applications []Application  `json:"applications"`
	Stressors    []Stressor     `json:"stressors"`
	Cases        []Case         `json:"cases"`
	Rounds       int            `json:"rounds"` // rounds that were requested
	Seed         uint64         `json:"seed"`
	Stopped      bool           `json:"stopped"`           // the isolation ended early
	Partial      bool           `json:"partial,omitempty"` // same as Stopped, under the name that all commands use
	Runs         []IsolationRun `json:"runs"`              // in the order in which they ran
	// Interference describes the other processes that used the CPUs of the measurement. It is nil if they used at most 10 % of these
	// CPUs.
	Interference *interference.Report `json:"interference,omitempty"`
}

// An Application is an application with its name and command.
type Application struct {
	Name    string   `json:"name"`
	Command []string `json:"command"`
}

const (
	isolationKind    = "isolation"
	isolationVersion = 1
)

// doing describes a run.
func (r *IsolationReport) doing(run *IsolationRun) string {
	beside := "alone"
	if run.Stressor != alone {
		beside = "beside " + r.Stressors[run.Stressor].Name
	}
	return fmt.Sprintf("%s %s, %s", r.Applications[run.App].Name, beside, r.Cases[run.Case])
}

// An IsolationDocument is the JSON form of a report: the report with the verdicts that follow from its runs.
type IsolationDocument struct {
	*IsolationReport
	Verdicts []IsolationConclusion `json:"verdicts"` // by case
}

// Write encodes a report as JSON.
func (r *IsolationReport) Write(w io.Writer) error {
	return jsonout.Write(w, IsolationDocument{r, r.Conclusions()})
}

// IsIsolation reports whether data is the JSON of an isolation's report.
func IsIsolation(data []byte) bool {
	var header struct {
		Kind string `json:"kind"`
	}
	return json.Unmarshal(data, &header) == nil && header.Kind == isolationKind
}

// ReadIsolation reads the file of a report. isIsolation is false if the file has another type of report.
func ReadIsolation(file string) (r *IsolationReport, isIsolation bool, err error) {
	data, err := fileio.Read(file, maxReport)
	if err != nil || !IsIsolation(data) {
		return nil, false, err
	}
	if r, err = ParseIsolation(data); err != nil {
		return nil, true, fmt.Errorf("%s: %w", file, err)
	}
	return r, true, nil
}

// ParseIsolation parses and checks a report. It ignores the verdicts, which follow from the runs.
func ParseIsolation(data []byte) (*IsolationReport, error) {
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &version); err != nil || !IsIsolation(data) {
		return nil, fmt.Errorf("%w: must be the output of candor isolate -o json", ErrBadReport)
	}
	if version.Version != isolationVersion {
		return nil, fmt.Errorf("%w: version %d: must be %d", ErrBadReport, version.Version, isolationVersion)
	}
	r := IsolationDocument{IsolationReport: new(IsolationReport)}
	if err := fileio.DecodeStrict(data, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadReport, err)
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadReport, err)
	}
	return r.IsolationReport, nil
}

// check returns an error if the report contradicts itself.
func (r *IsolationReport) check() error {
	if len(r.Applications) == 0 || len(r.Stressors) == 0 || len(r.Cases) == 0 || r.Rounds < 1 {
		return errors.New("no applications, stressors, cases or rounds")
	}
	for _, c := range r.Cases {
		if _, err := ParseCase(string(c)); err != nil {
			return err
		}
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		switch {
		case run.App < 0 || run.App >= len(r.Applications), run.Case < 0 || run.Case >= len(r.Cases), run.Stressor < alone || run.Stressor >= len(r.Stressors):
			return fmt.Errorf("run %d: application %d, case %d, stressor %d: out of range", i, run.App, run.Case, run.Stressor)
		case run.Round < 0 || run.Round >= MaxRuns:
			return fmt.Errorf("run %d: round %d: out of range", i, run.Round)
		case run.Failure == "" && !(run.Time >= 1e-9 && run.Time <= maxValue):
			return fmt.Errorf("run %d: no failure, but time %g", i, run.Time)
		case run.Load != nil && !(run.Load.CPUs >= 0 && run.Load.Rate >= 0):
			return fmt.Errorf("run %d: load of %g CPUs, rate %g: must not be negative", i, run.Load.CPUs, run.Load.Rate)
		}
	}
	return nil
}

// Times returns the seconds that an application took in a case beside a stressor (-1: alone), and the round of each
// time. It omits failed runs.
func (r *IsolationReport) Times(app, c, stressor int) (times []float64, rounds []int) {
	for i := range r.Runs {
		if run := &r.Runs[i]; run.App == app && run.Case == c && run.Stressor == stressor && run.Failure == "" {
			times, rounds = append(times, run.Time), append(rounds, run.Round)
		}
	}
	return times, rounds
}

// LoadOf returns the medians of a stressor's load in a case, over all applications.
func (r *IsolationReport) LoadOf(c, stressor int) Load {
	var cpus, rates []float64
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Case == c && run.Stressor == stressor && run.Failure == "" && run.Load != nil {
			cpus, rates = append(cpus, run.Load.CPUs), append(rates, run.Load.Rate)
		}
	}
	return Load{Median(cpus), Median(rates)}
}

// Failures returns the number of failed runs, and the reason of the first failure.
func (r *IsolationReport) Failures() (runs int, why string) {
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Failure == "" {
			continue
		}
		if runs++; runs == 1 {
			why = r.doing(run) + ": " + run.Failure
		}
	}
	return runs, why
}

// Others returns the median of the CPUs that other programs, interrupts and other virtual machines used during the runs.
func (r *IsolationReport) Others() float64 {
	var values []float64
	for i := range r.Runs {
		values = append(values, r.Runs[i].Noise.Others+r.Runs[i].Noise.Stolen)
	}
	return Median(values)
}
