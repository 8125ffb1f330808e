package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/view"
)

// A memoryProbe is a program that prints the size of the memory that it finds, in bytes.
type memoryProbe struct {
	row    string // in the table of docs/view.md
	needs  string // command that succeeds if the program is installed
	script string
	want   string // the answer with a view
	small  string // the answer with a view and a limit of 256 MiB; "": as want
}

// Answers of probes.
const (
	answersLimit   = "**limit**"
	answersLess    = "**less than the limit**"
	answersMachine = "machine"
	answersNone    = "none"
	answersKilled  = "killed"
)

// python returns a command that runs a line of Python with the packages of scripts/view-programs.sh.
func python(line string) string { return `view-python -c "` + line + `"` }

// memoryProbes are the programs of the matrix. scripts/view-programs.sh installs those that other tests do not need.
var memoryProbes = []memoryProbe{
	{"`/proc/meminfo`", "command -v awk", `awk '/^MemTotal:/ {printf "%.0f", $2*1024}' /proc/meminfo`, answersLimit, ""},
	{"`free` (procps)", "command -v free", `free -b | awk '/^Mem:/ {print $2}'`, answersLimit, ""},
	{"`vmstat -s`", "command -v vmstat", `vmstat -s | awk '/total memory/ {printf "%.0f", $1*1024}'`, answersLimit, ""},
	{"`top`", "command -v top", `TERM=dumb top -bn1 | awk '/^MiB Mem/ {printf "%.0f", $4*1048576}'`, answersLimit, ""},
	{"psutil `virtual_memory`", python("import psutil"), python("import psutil; print(psutil.virtual_memory().total)"), answersLimit, ""},
	{"gopsutil `mem.VirtualMemory`", "command -v view-gopsutil", "view-gopsutil", answersLimit, ""},
	{"Rust sysinfo `total_memory`", "command -v view-sysinfo", "view-sysinfo", answersLimit, ""},
	{"Node `os.totalmem`", "command -v node", `node -p 'os.totalmem()'`, answersLimit, ""},
	{"Node `os.freemem`", "command -v node", `node -p 'os.freemem()'`, answersLess, ""},
	{"Node `process.constrainedMemory`", "command -v node", `node -p 'process.constrainedMemory()'`, answersLimit, ""},
	{"JVM 17 `MaxHeapSize`, 4 times", "command -v java", `java -XX:+PrintFlagsFinal -version 2>/dev/null | awk '/ MaxHeapSize / {printf "%.0f", $4*4}'`, answersLimit, "504 MiB"},
	{"JVM 17 `OperatingSystemMXBean`", "command -v javac", `java probes/testdata/Memory.java`, answersLimit, ""},
	{"DuckDB `memory_limit`, 1.25 times", python("import duckdb"), python("import duckdb; n, u = duckdb.sql('select current_setting(\\'memory_limit\\')').fetchone()[0].split(); print(int(float(n)*1.25*{'KiB': 2**10, 'MiB': 2**20, 'GiB': 2**30}[u]))"), answersLimit, ""},
	{"Dask `MEMORY_LIMIT`", python("import distributed"), python("from distributed.system import MEMORY_LIMIT; print(MEMORY_LIMIT)"), answersLimit, ""},
	{"Ray `get_system_memory`", python("import ray"), python("from ray._common.utils import get_system_memory; print(get_system_memory())"), answersLimit, ""},
	{"C `sysconf(_SC_PHYS_PAGES)`", "command -v getconf", `echo $(($(getconf _PHYS_PAGES)*$(getconf PAGE_SIZE)))`, answersMachine, ""},
	{"Python `os.sysconf('SC_PHYS_PAGES')`", "command -v python3", `python3 -c 'import os; print(os.sysconf("SC_PHYS_PAGES")*os.sysconf("SC_PAGE_SIZE"))'`, answersMachine, ""},
	{"`free` (busybox)", "command -v busybox", `busybox free -k | awk '/^Mem:/ {printf "%.0f", $2*1024}'`, answersMachine, ""},
	{"Redis `total_system_memory`", "command -v redis-server", `d=$(mktemp -d); redis-server --port 0 --unixsocket $d/s --dir $d --save "" >/dev/null & for i in $(seq 50); do sleep 0.1; redis-cli -s $d/s ping >/dev/null 2>&1 && break; done; redis-cli -s $d/s info memory | awk -F: '/^total_system_memory:/ {printf "%.0f", $2}'; kill $!; wait $!; rm -rf $d`, answersMachine, ""},
	{"R `mem.maxVSize`", "command -v Rscript", `Rscript -e 'cat(format(mem.maxVSize()*2^20, scientific=FALSE))'`, answersMachine, ""},
	{"PostgreSQL `effective_cache_size`", "command -v postgres", `d=$(mktemp -d); touch $d/postgresql.conf; chmod 755 $d; n=$(setpriv --reuid=65534 --regid=65534 --clear-groups postgres -D $d -C effective_cache_size); rm -r $d; echo $((n*8192))`, "4096 MiB", ""},
}

// memoryColumns are the flags of candor run in the columns of the matrix.
var memoryColumns = []struct {
	flags  []string
	limit  int64 // in bytes; 0: none
	isView bool
}{
	{[]string{"--class", "flexible"}, 0, false},
	{[]string{"--class", "flexible", "--memory", "256m"}, 256 * mib, false},
	{[]string{"--cpu", "1500m", "--memory", "256m"}, 256 * mib, true},
	{[]string{"--class", "flexible", "--memory", "1500m"}, 1500 * mib, false},
	{[]string{"--cpu", "1500m", "--memory", "1500m"}, 1500 * mib, true},
}

const memoryTitle = "| program or function | no limit | 256m, limit only | 256m, candor | 1500m, limit only | 1500m, candor |\n| --- | --- | --- | --- | --- | --- |\n"

// measureMemory runs a probe in all columns and returns its line of the matrix.
func measureMemory(t *testing.T, l *lab, p *memoryProbe, machine int64) string {
	cells := []string{p.row}
	for _, column := range memoryColumns {
		out, err := answer(l.candor(append(append([]string{"run"}, column.flags...), "--", "sh", "-c", p.script)...), "", nil)
		word := memoryWord(p, out, column.limit, machine)
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 128+int(unix.SIGKILL) {
			word = answersKilled
		} else if err != nil {
			t.Fatal(err)
		}
		want := p.want
		if p.small != "" && column.limit == 256*mib {
			want = p.small
		}
		if column.isView && word != want {
			t.Errorf("with a view of %d MiB: %s, want %s", column.limit/mib, word, want)
		}
		cells = append(cells, word)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// memoryWord formats the answer of a probe for the matrix. limit is 0 without a limit.
func memoryWord(p *memoryProbe, text string, limit, machine int64) string {
	text = strings.TrimSpace(text)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && text != "undefined" {
		return fmt.Sprintf("%q", text)
	}
	isNear := func(want int64) bool { return n > float64(want)*0.99 && n < float64(want)*1.01 }
	switch {
	case text == "undefined" || n == 0 || n > float64(machine)*1.01:
		return answersNone
	case p.want == answersLess && n < float64(limit):
		return answersLess
	case p.want == answersLess && n < float64(machine), isNear(machine):
		return answersMachine
	case isNear(limit):
		return answersLimit
	}
	return fmt.Sprintf("%.0f MiB", n/mib)
}

// TestMemoryMatrix runs each installed program without a limit, with a limit alone and with a limit and a view, and compares its
// answers with docs/view.md.
//
//	CANDOR_VIEW_PROGRAMS=DIR   output of scripts/view-programs.sh: the programs that other tests do not need
func TestMemoryMatrix(t *testing.T) {
	l := newLab(t)
	l.needMemory()
	if dir := os.Getenv("CANDOR_VIEW_PROGRAMS"); dir != "" {
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	}
	machine, err := view.ReadMachineMemory()
	if err != nil {
		t.Fatal(err)
	}
	if machine.Total < 4*1500*mib {
		t.Skipf("a limit of 1500 MiB on a machine of %d MiB has no result", machine.Total/mib)
	}
	var lines []string
	for i := range memoryProbes {
		p := &memoryProbes[i]
		t.Run(p.row, func(t *testing.T) {
			needProgram(t, p.needs)
			lines = append(lines, measureMemory(t, l, p, machine.Total))
		})
	}
	checkMemoryDoc(t, filepath.Join("..", "docs", "view.md"), lines)
	l.empty()
}

// scriptPrograms are parts of the names of the programs that scripts/view-programs.sh installs.
var scriptPrograms = []string{"view-", "redis-server", "Rscript", "mpstat", "htop"}

// needProgram skips the test if a program is not installed. needs is a command that succeeds if it is. A missing program of
// scripts/view-programs.sh is an error with CANDOR_VIEW_PROGRAMS, which the script prints.
func needProgram(t *testing.T, needs string) {
	t.Helper()
	switch err := exec.Command("sh", "-c", needs).Run(); {
	case err == nil:
	case os.Getenv("CANDOR_VIEW_PROGRAMS") != "" && slices.ContainsFunc(scriptPrograms, func(name string) bool { return strings.Contains(needs, name) }):
		t.Fatalf("%s: %v; scripts/view-programs.sh installs the program", needs, err)
	default:
		t.Skip("the program is not installed")
	}
}

// checkMemoryDoc compares the measured lines of the matrix with a page, or writes them with -update.
func checkMemoryDoc(t *testing.T, doc string, lines []string) {
	t.Helper()
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	const end = "<!-- end of the matrix of memory -->"
	before, rest, found := strings.Cut(string(text), memoryTitle)
	table, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no matrix of memory", doc)
	}
	rows := map[string]string{} // lines by program
	rowOf := func(line string) string { return strings.Split(line, " | ")[0] }
	for line := range strings.Lines(table) {
		rows[rowOf(line)] = line
	}
	for _, line := range lines {
		if rows[rowOf(line)] == line {
			continue
		}
		if !*update {
			t.Errorf("measured %s%s has another line; go test ./e2e -run TestMemoryMatrix -update writes it", line, doc)
		}
		rows[rowOf(line)] = line
	}
	table = ""
	for i := range memoryProbes {
		table += rows["| "+memoryProbes[i].row]
	}
	if page := before + memoryTitle + table + end + after; *update && page != string(text) {
		if err := os.WriteFile(doc, []byte(page), 0o644); err != nil {
			t.Error(err)
		}
	}
}
