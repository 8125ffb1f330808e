package compatibility

import (
	"fmt"
	"maps"
	"strings"
)

// notMeasured is the text of a cell without a result.
const notMeasured = "not measured"

const pageHead = `# Compatibility

This page lists the kernels and the container engines with which Candor was measured. Other versions can work too.
[candor doctor](doctor.md) checks a machine before the installation.

## Measured cells

A cell is *yes* if all steps of the [scenario](#scenario) succeeded. Otherwise, it shows the failed step with its error,
a missing feature of the kernel or the engine, or *not measured*. *host* is the machine of the measurement, and the
other columns are virtual machines. The rows with NRI use the plugin [candor nri](kubernetes.md). The other rows use the
OCI runtime [candor-runc](docker.md).

`

const pageScenario = `
## Scenario

` + "`make matrix`" + ` measures the cells. Each cell is a test with these steps:

1. A sensitive container with a limit of 1500m sees 2 CPUs: in its affinity, in ` + "`/proc/cpuinfo`" + ` and in
   ` + "`/sys/devices/system/cpu/online`" + `.
2. A flexible container with a limit of 300m has a quota of 30 ms per 100 ms, and none of the exclusive CPUs of the
   first container.
3. The engine resizes both containers in place, to 1000m and 200m. The first container then sees 1 CPU.
4. The test kills ` + "`candor nri`" + ` with SIGKILL. In the rows with candor-runc, it kills several candor processes during their
   operations. The containers keep their CPUs, and the next operation finds the same state.
5. Both containers end. No grant remains, and with candor-runc no cgroup remains either.

A failed cell is measured a second time, and the second result counts. A cell is *not measured* if there is no test for
it, or if the programs of the engine were not installed; [Run the tests](testing.md#compatibility) describes the
installation.

## arm64

A test runs ` + "`candor version`, `candor plan` and `candor topology`" + ` for arm64 under QEMU. Plans and topologies are the
same as on amd64. No cell of this page is measured on arm64.

## Versions

`

// Page returns the page with the results of cells, by their names.
func Page(results map[string]Result) string {
	var page strings.Builder
	page.WriteString(pageHead)
	page.WriteString("| engine |")
	for _, m := range Machines() {
		fmt.Fprintf(&page, " %s |", m.Title)
	}
	page.WriteString("\n| --- |" + strings.Repeat(" --- |", len(Machines())) + "\n")
	for _, e := range Engines() {
		fmt.Fprintf(&page, "| %s |", e.Title)
		for _, m := range Machines() {
			answer := notMeasured
			if r, ok := results[(Cell{m, e}).String()]; ok {
				answer = r.Answer
			}
			fmt.Fprintf(&page, " %s |", answer)
		}
		page.WriteString("\n")
	}
	page.WriteString(pageScenario)
	page.WriteString(versions(results))
	return page.String()
}

// versions returns the table with the versions and the date of each result.
func versions(results map[string]Result) string {
	if len(results) == 0 {
		return "No cell is measured.\n"
	}
	var table strings.Builder
	table.WriteString("| cell | versions | date |\n| --- | --- | --- |\n")
	for _, c := range Cells() {
		if r, ok := results[c.String()]; ok {
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", c, r.Versions, r.Date)
		}
	}
	return table.String()
}

// ReadPage returns the results of a page. It ignores rows and columns that Page does not write.
func ReadPage(page string) map[string]Result {
	results := map[string]Result{}
	for _, row := range rows(page) {
		name := strings.Trim(row[0], "`")
		if c, err := ParseCells([]string{name}); err == nil && len(c) == 1 && len(row) == 3 {
			results[name] = Result{Cell: name, Versions: row[1], Date: row[2]}
		}
	}
	answers := map[string]string{}
	for _, row := range rows(page) {
		for _, e := range Engines() {
			for i, m := range Machines() {
				if row[0] == e.Title && len(row) == 1+len(Machines()) && row[1+i] != notMeasured {
					answers[(Cell{m, e}).String()] = row[1+i]
				}
			}
		}
	}
	maps.DeleteFunc(results, func(name string, _ Result) bool { return answers[name] == "" })
	for name, r := range results {
		r.Answer = answers[name]
		results[name] = r
	}
	return results
}

// rows returns the cells of the lines of all tables.
func rows(page string) (rows [][]string) {
	for line := range strings.Lines(page) {
		text, isRow := strings.CutPrefix(strings.TrimSpace(line), "| ")
		text, isComplete := strings.CutSuffix(text, " |")
		if isRow && isComplete {
			rows = append(rows, strings.Split(text, " | "))
		}
	}
	return rows
}
