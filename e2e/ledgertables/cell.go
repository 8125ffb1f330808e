// Package ledgertables plans, stores and tabulates the measurements of make ledger, which repeats the experiments of "cgroup extension for
// CPU resource accounting" (IPSJ SIG Technical Report, 2022). It has no knowledge of container engines: e2e/containerd starts them.
package ledgertables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Period is the period of all quotas.
const Period = 100 * time.Millisecond

// SettleTime is the time between the start of the containers and the measurement. In this time, a container with the method Charge pays for
// the helper time from before its first charge.
const SettleTime = 3 * time.Second

// A Method is the way in which the CPU time of a helper counts against the limit of its container.
type Method string

// The methods. A and B are the names of the paper (approach 1).
const (
	None   Method = "none"   // the helper is in the engine's cgroup, and no limit bounds it
	Charge Method = "charge" // candor ledger agent charges the helper's CPU time to the container
	A      Method = "A"      // the helper is in the container's cpu cgroup
	B      Method = "B"      // a cgroup with the limit has two children: the container and the helper
	Place  Method = "place"  // the level place of Candor: the helper is in a child of the container's cgroup
)

// An Engine is a container engine.
type Engine string

// The engines. containerd's helpers are threads that serve all containers; the other engines start a helper for each container.
const (
	Containerd Engine = "containerd" // through CRI
	Podman     Engine = "Podman"
	Nerdctl    Engine = "nerdctl"
)

// A Column is a column of the tables: an engine with a method.
type Column struct {
	Name   string
	Engine Engine
	Method Method
}

// Columns returns all columns in the order of the tables. For each engine, the column with the method None comes first.
func Columns() []Column {
	columns := []Column{{"none", Containerd, None}, {"charge", Containerd, Charge}}
	for _, engine := range []Engine{Podman, Nerdctl} {
		for _, method := range []Method{None, A, B, Place} {
			columns = append(columns, Column{string(method) + "_" + strings.ToLower(string(engine)), engine, method})
		}
	}
	return columns
}

// ColumnOf returns the column with a name.
func ColumnOf(name string) (Column, error) {
	var names []string
	for _, c := range Columns() {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Column{}, fmt.Errorf("column %.100q: must be one of %s", name, strings.Join(names, ", "))
}

// A Program is a program of a container. Its output makes the container's helper work.
type Program struct{ Name, Script string }

// Programs returns the programs of the paper. The second program writes as much output as the paper's lsmod, also on kernels without modules.
func Programs() []Program {
	return []Program{
		{"yes", "yes"},
		{"lsmod", "while :; do cat /proc/self/maps; done"},
		{"echo", "while :; do echo 1; done"},
	}
}

// DD is the name of the program in the baseline of E2: each container beside sysbench runs only dd.
const DD = "dd"

// Quotas returns the quotas of E1.
func Quotas() []time.Duration {
	return []time.Duration{50 * time.Millisecond, 33 * time.Millisecond, 25 * time.Millisecond, 20 * time.Millisecond}
}

// Sizes returns the numbers of containers of E2. In each case, sysbench runs in one of the containers.
func Sizes() []int { return []int{2, 3, 4, 5} }

// The experiments.
const (
	E1 = "E1" // a container alone: the CPU use of the container and of its helpers
	E2 = "E2" // sysbench beside other containers
)

// A Cell identifies a measurement by its parameters. In E1, Containers is 0.
type Cell struct {
	Experiment string
	Containers int           // E2: number of containers, including the container of sysbench
	Quota      time.Duration // of each container, per Period
	Program    string
	Column     string
	Run        int           // from 0
	Work       time.Duration // duration of the measurement
}

// A Result is the result of a Cell.
type Result struct {
	Own     float64 // E1: CPUs that the container uses
	Helpers float64 // E1: CPUs that the engine and the helpers use
	LogRate float64 // E1: bytes per second of the log
	Events  float64 // E2: events per second of sysbench
	Delay   Delay   // delay of the lines in the log; in E2, in the log of the first container beside sysbench
}

// String describes the cell in a line of the progress, such as "E2 N=3 yes B_podman run 1".
func (c Cell) String() string {
	size := fmt.Sprintf("%d ms", c.Quota.Milliseconds())
	if c.Experiment == E2 {
		size = fmt.Sprintf("N=%d", c.Containers)
	}
	return fmt.Sprintf("%s %s %s %s run %d", c.Experiment, size, c.Program, c.Column, c.Run+1)
}

// newE1 returns a cell of E1.
func newE1(quota time.Duration, program string) Cell {
	return Cell{Experiment: E1, Quota: quota, Program: program}
}

// newE2 returns a cell of E2. The limits divide a CPU equally among the containers.
func newE2(containers int, program string) Cell {
	return Cell{Experiment: E2, Containers: containers, Quota: Period / time.Duration(containers), Program: program}
}

// in returns the cell for a column and a duration. It does not set Run.
func (c Cell) in(column string, work time.Duration) Cell {
	c.Column, c.Work = column, work
	return c
}

// Settings select the cells.
type Settings struct {
	Columns []Column
	Runs    int           // runs of each cell; 0: the default, which is 5 for the method Charge, else 3
	Work    time.Duration // duration of a measurement; 0: the default, which is 30 s for the method Charge, else 10 s
}

// ParseSettings reads settings from the variables of make ledger. columns are names separated by spaces; "" selects all columns. runs is a
// number from 1 and work a number of seconds from 1; "" selects the defaults.
func ParseSettings(columns, runs, work string) (s Settings, err error) {
	for name := range strings.FieldsSeq(columns) {
		c, err := ColumnOf(name)
		if err != nil {
			return s, err
		}
		s.Columns = append(s.Columns, c)
	}
	if s.Columns == nil {
		s.Columns = Columns()
	}
	if s.Runs, err = parseCount("number of runs", runs); err != nil {
		return s, err
	}
	seconds, err := parseCount("seconds of a measurement", work)
	s.Work = time.Duration(seconds) * time.Second
	return s, err
}

// parseCount returns a number from 1, or 0 for "".
func parseCount(name, text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1000 {
		return 0, fmt.Errorf("%s %.100q: must be a number from 1 to 1000", name, text)
	}
	return n, nil
}

// runs returns the number of runs of a column.
func (s Settings) runs(c Column) int {
	switch {
	case s.Runs > 0:
		return s.Runs
	case c.Method == Charge:
		return 5
	}
	return 3
}

// work returns the duration of the measurements of a column.
func (s Settings) work(c Column) time.Duration {
	switch {
	case s.Work > 0:
		return s.Work
	case c.Method == Charge:
		return 30 * time.Second
	}
	return 10 * time.Second
}

// baseline returns an engine's column with the method None. In this column, E2 is also measured beside containers that run only dd.
func baseline(engine Engine) Column {
	all := Columns()
	return all[slices.IndexFunc(all, func(c Column) bool { return c.Engine == engine && c.Method == None })]
}

// Plan returns the cells in the order in which they are measured: by run, then by engine, so that an engine starts once in a run.
func (s Settings) Plan() (cells []Cell) {
	runs := 0
	for _, c := range s.Columns {
		runs = max(runs, s.runs(c))
	}
	for run := range runs {
		for _, engine := range []Engine{Containerd, Podman, Nerdctl} {
			cells = append(cells, s.planRun(engine, run)...)
		}
	}
	return cells
}

// planRun returns the cells of an engine in a run.
func (s Settings) planRun(engine Engine, run int) (cells []Cell) {
	var columns []Column
	for _, c := range s.Columns {
		if c.Engine == engine && run < s.runs(c) {
			columns = append(columns, c)
		}
	}
	add := func(c Cell, columns ...Column) {
		for _, column := range columns {
			next := c.in(column.Name, s.work(column))
			next.Run = run
			cells = append(cells, next)
		}
	}
	if len(columns) == 0 {
		return nil
	}
	for _, quota := range Quotas() {
		for _, p := range Programs() {
			add(newE1(quota, p.Name), columns...)
		}
	}
	for _, n := range Sizes() {
		if base := baseline(engine); run < s.runs(base) {
			add(newE2(n, DD), base)
		}
		for _, p := range Programs() {
			add(newE2(n, p.Name), columns...)
		}
	}
	return cells
}
