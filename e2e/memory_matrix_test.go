package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/candor-project/candor/view"
)

// A memoryProbe is a program that prints the size of the memory that it finds, in bytes.
type memoryProbe struct {
	row     string // in the table of docs/view.md
	needs   string // program that must be installed
	script  string
	isBlind bool // it finds the machine's memory with a view too
}

var memoryProbes = []memoryProbe{
	{"`/proc/meminfo`", "awk", `awk '/^MemTotal:/ {printf "%.0f", $2*1024}' /proc/meminfo`, false},
	{"`free` (procps)", "free", `free -b | awk '/^Mem:/ {print $2}'`, false},
	{"`vmstat -s`", "vmstat", `vmstat -s | awk '/total memory/ {printf "%.0f", $1*1024}'`, false},
	{"`top`", "top", `TERM=dumb top -bn1 | awk '/^MiB Mem/ {printf "%.0f", $4*1048576}'`, false},
	{"Node `os.totalmem`", "node", `node -p 'os.totalmem()'`, false},
	{"Node `process.constrainedMemory`", "node", `node -p 'process.constrainedMemory()'`, false},
	{"JVM 17 `MaxHeapSize`, 4 times", "java", `java -XX:+PrintFlagsFinal -version 2>/dev/null | awk '/ MaxHeapSize / {printf "%.0f", $4*4}'`, false},
	{"C `sysconf(_SC_PHYS_PAGES)`", "getconf", `echo $(($(getconf _PHYS_PAGES)*$(getconf PAGE_SIZE)))`, true},
	{"Python `os.sysconf('SC_PHYS_PAGES')`", "python3", `python3 -c 'import os; print(os.sysconf("SC_PHYS_PAGES")*os.sysconf("SC_PAGE_SIZE"))'`, true},
	{"`free` (busybox)", "busybox", `busybox free -k | awk '/^Mem:/ {printf "%.0f", $2*1024}'`, true},
}

// TestMemoryMatrix runs each installed program without a limit, with a limit alone and with a limit and a view, and compares its answers with
// docs/view.md.
func TestMemoryMatrix(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	machine, err := view.ReadMachineMemory()
	if err != nil {
		t.Fatal(err)
	}
	const limit = 512 * mib
	if machine.Total < 2*limit {
		t.Skipf("a limit of 512 MiB on a machine of %d MiB has no result", machine.Total>>20)
	}
	word := func(text string) string {
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		near := func(want int64) bool { return n > float64(want)*0.99 && n < float64(want)*1.01 }
		switch {
		case err == nil && near(limit):
			return "**limit**"
		case err == nil && near(machine.Total):
			return "machine"
		case err == nil && n > float64(machine.Total) || strings.TrimSpace(text) == "0" || strings.TrimSpace(text) == "undefined":
			return "none"
		}
		return fmt.Sprintf("%q", text)
	}
	columns := [][]string{
		{"--class", "flexible"},
		{"--class", "flexible", "--memory", "512m"},
		{"--cpu", "1", "--memory", "512m"},
	}
	doc := filepath.Join("..", "docs", "view.md")
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, p := range memoryProbes {
		t.Run(p.row, func(t *testing.T) {
			if _, err := exec.LookPath(p.needs); err != nil {
				t.Skip(err)
			}
			cells := []string{p.row}
			for _, flags := range columns {
				out, err := answer(l.candor(append(append([]string{"run"}, flags...), "--", "sh", "-c", p.script)...), "", nil)
				if err != nil {
					t.Fatal(err)
				}
				cells = append(cells, word(out))
			}
			if want := map[bool]string{false: "**limit**", true: "machine"}[p.isBlind]; cells[3] != want {
				t.Errorf("with a view: %s, want %s", cells[3], want)
			}
			line := "| " + strings.Join(cells, " | ") + " |\n"
			if strings.Contains(page, line) {
				return
			}
			if !*update {
				t.Errorf("measured %sdocs/view.md has another row; go test ./e2e -run TestMemoryMatrix -update writes it", line)
				return
			}
			before, rest, found := strings.Cut(page, "| "+p.row+" |")
			if !found {
				before, rest, _ = strings.Cut(page, "<!-- end of the matrix of memory -->")
				rest = "\n<!-- end of the matrix of memory -->" + rest
			}
			_, rest, _ = strings.Cut(rest, "\n")
			page = before + line + rest
		})
	}
	if *update && page != string(text) {
		if err := os.WriteFile(doc, []byte(page), 0o644); err != nil {
			t.Error(err)
		}
	}
	l.empty()
}
