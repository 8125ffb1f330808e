package expreport

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/hybrid"
)

// number formats a value with about four digits and without an exponent.
func number(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := 3 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', min(max(decimals, 0), 9), 64)
}

func fixed(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

func probability(p float64) string {
	if p < 0.0001 {
		return "< 0.0001"
	}
	return strconv.FormatFloat(p, 'f', 4, 64)
}

// printable replaces characters that control a terminal. It is a mapping function for strings.Map.
func printable(c rune) rune {
	if c == '\n' || unicode.IsPrint(c) {
		return c
	}
	return ' '
}

// title returns a metric's name and unit, and whether lower or higher values are better.
func title(m experiment.ReportMetric) string {
	unit, better := "", "lower is better"
	if m.Unit != "" {
		unit = ", " + m.Unit
	}
	if m.HigherIsBetter {
		better = "higher is better"
	}
	return fmt.Sprintf("%s%s (%s)", m.Name, unit, better)
}

// setupText returns how a setup enforces the limit, and which CPUs the program sees.
func setupText(s experiment.Setup) (enforcement, visible string) {
	switch s.Kind {
	case experiment.None:
		enforcement, visible = "no limit", "all"
	case experiment.Quota:
		enforcement, visible = "CFS quota, as with docker run --cpus", "all"
	case experiment.QuotaThreads:
		enforcement, visible = "CFS quota", fmt.Sprintf("all, but the program is asked to start %d threads", s.Threads)
	case experiment.Cpuset:
		enforcement, visible = "exclusive CPUs, as many as the limit rounded up; a CFS quota if the limit has a fraction", "the exclusive CPUs, by affinity"
	case experiment.SharedFraction:
		return "two simultaneous copies, each with the limit; their fractions are on the same CPU", "the CPUs of its copy, by affinity"
	case experiment.Candor:
		enforcement, visible = "candor run --cpu", "the CPUs of its cpuset, by affinity and by files"
		if s.Topology != hybrid.Prefer {
			enforcement += " --topology " + s.Topology.String()
		}
	}
	if s.Copies > 1 {
		enforcement = fmt.Sprintf("%d simultaneous copies, each: %s", s.Copies, enforcement)
	}
	return enforcement, visible
}

// machineText describes a machine.
func machineText(m *experiment.Machine) string {
	return fmt.Sprintf("%s, %d CPUs (%s), Linux %s", m.Model, m.CPUs, m.Topology, m.Kernel)
}

// measurementText describes the machine and the measurement.
func measurementText(m *experiment.Machine, began time.Time, rounds int, seed uint64) string {
	return fmt.Sprintf("%s, load %s before; %s; %d rounds in random order, seed %d.", machineText(m), m.Load, began.Format("2006-01-02 15:04 MST"), rounds, seed)
}

// partialNote returns the first line of a report whose measurement stopped early, otherwise nothing.
func partialNote(stopped bool, rounds int) []string {
	if !stopped {
		return nil
	}
	return []string{fmt.Sprintf("Partial result: the measurement was stopped; %d rounds were requested.", rounds)}
}

var markdown = strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'", "*", `\*`, "_", `\_`, "\n", " ", "\r", " ")

// escapeMarkdown escapes the special characters of Markdown.
func escapeMarkdown(text string) string { return markdown.Replace(text) }

// markdownCode formats a text as Markdown code.
func markdownCode(text string) string {
	return "`" + strings.NewReplacer("`", "'", "\n", " ", "\r", " ").Replace(text) + "`"
}
