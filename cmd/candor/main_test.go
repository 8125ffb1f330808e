package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
)

// command runs a command line of candor with in as standard input.
func command(t *testing.T, in string, args ...string) (code int, out, errOut string) {
	t.Helper()
	t.Setenv("LC_ALL", "C.UTF-8")
	var o, e bytes.Buffer
	code = run(args, strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

// errorPrefix returns the beginning of the errors of a command line: the command's path, such as "candor setup host: ".
func errorPrefix(t *testing.T, args []string) string {
	t.Helper()
	root, _ := newRoot()
	cmd, _, err := root.Find(args)
	if err != nil {
		t.Fatal(err)
	}
	return cmd.CommandPath() + ": "
}

// TestBadInput: bad input gives a single line on standard error, exit code 2 and no standard output.
func TestBadInput(t *testing.T) {
	for line, want := range map[string]string{
		"pln":                       `unknown command "pln": did you mean "plan"?`,
		"rnu":                       `unknown command "rnu": did you mean "run"?`,
		"logs":                      `unknown command "logs"; candor --help lists the commands`,
		"cp":                        `unknown command "cp"; candor --help lists the commands`,
		"diff":                      `unknown command "diff"; candor --help lists the commands`,
		"inpsetc":                   `unknown command "inpsetc": did you mean "inspect"?`,
		"topol":                     `unknown command "topol": did you mean "topology"?`,
		"stat":                      `unknown command "stat": did you mean "top"?`,
		"list":                      `unknown command "list": did you mean "ps"?`,
		"frobnicate":                `unknown command "frobnicate"; candor --help lists the commands`,
		"help frobnicate":           `unknown command "frobnicate"; candor --help lists the commands`,
		"completion bahs":           `unknown command "bahs": did you mean "bash"?`,
		"setup hots":                `unknown command "hots": did you mean "host"?`,
		"--bogus":                   "unknown flag --bogus; candor --help lists the flags\n",
		"plan --bogus":              "unknown flag --bogus; candor plan --help lists the flags\n",
		"setup host -x":             "unknown flag -x; candor setup host --help lists the flags\n",
		"version now":               `argument "now": the command takes no arguments`,
		"map now":                   `argument "now": the command takes no arguments`,
		"map --sample -1s":          "--sample -1s: must be 0 to 1m",
		"top now":                   `argument "now": the command takes no arguments`,
		"place now":                 `argument "now": the command takes no arguments`,
		"top --interval 1ms":        "--interval 1ms: must be 100ms to 1m0s",
		"top --interval 2m":         "--interval 2m0s: must be 100ms to 1m0s",
		"top -n 0":                  "-n 0: must be 1 or more",
		"top --once -n 2":           "--once and -n: use one of them",
		"top --sort age":            `--sort "age": must be one of cpu, limit-used, throttled, name, limit`,
		"top --state-dir /dev/null": "state directory /dev/null: ",
		"inspect a/b --during 2h":   "--during 2h0m0s: must be 0 to 1h",
		"map --color blue":          `--color "blue": must be one of auto, always, never`,
		"plan a b":                  "2 arguments: must be at most 1, the FILE",
		"plan /no/such/file":        "open /no/such/file: no such file or directory",
		"plan -o xml":               `--output "xml": must be one of table, wide, json, svg`,
		"plan --algorithm best":     `--algorithm "best": must be one of candor, paper`,
		"plan --policy hard":        `--policy "hard": must be one of strict, best-effort`,
		"plan --reserved 3-1":       `--reserved "3-1": a range must rise`,
		"plan --min-shared much":    `--min-shared "much": must be a number of CPUs such as 2, 1.5 or 1500m`,
		"plan --machine pu:0":       "--machine: ",
		"plan --machine pu:1000000": "--machine: ",
		"plan --machine /nope":      "--machine: stat /nope: no such file or directory: must be " + machineForms + "\n",
		"run --cpu 1 --on-resize signal:KILL -- true": `bad request: on-resize "signal:KILL": no program can handle this signal; use another signal such as signal:HUP`,
		"inspect web --during -1s":                    "--during -1s: must be 0 to 1h",
		"inspect web --during 2h":                     "--during 2h0m0s: must be 0 to 1h",
		"view --cpu 1 --name tasks":                   `bad request: name "tasks"`,
		"view --class flexible --period 2s":           "bad request: period 2s: must be 1ms to 1s",
		"resize cpu.max --cpu 1":                      `name "cpu.max"`,
		"plan --machine pu:2 --min-shared 3":          "",
		"plan --machine pu:2 --reserved 0-1":          "",
	} {
		code, out, errOut := command(t, "", strings.Fields(line)...)
		if code != 2 || out != "" || !strings.HasPrefix(errOut, errorPrefix(t, strings.Fields(line))+want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("candor %s: code %d, %q, %q; want %q", line, code, out, errOut, want)
		}
	}
}

func TestVersion(t *testing.T) {
	_, want, _ := command(t, "", "version")
	if code, out, errOut := command(t, "", "--version"); code != 0 || out != want || errOut != "" || !strings.HasPrefix(out, "candor ") {
		t.Errorf("%d, %q, %q; want %q", code, out, errOut, want)
	}
}

// TestVersionJSON: the report has the versions of this candor, and the values of the linker before those of the build.
func TestVersionJSON(t *testing.T) {
	oldCommit, oldDate := commit, date
	t.Cleanup(func() { commit, date = oldCommit, oldDate })
	commit, date = "0123456789abcdef", "2026-11-27T10:00:00+02:00"
	code, out, errOut := command(t, "", "version", "-o", "json")
	if code != 0 || errOut != "" {
		t.Fatalf("%d, %q", code, errOut)
	}
	var got versionReport
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	want := versionReport{
		Version: versionString(), Commit: "0123456789abcdef", Date: "2026-11-27T08:00:00Z",
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, APIVersions: []string{"candor.dev/v1alpha1"},
	}
	want.State.Reads, want.State.Writes, want.State.Features = []int{1, 2, 3}, 2, []string{"helpers", "live-view"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for text, want := range map[string]string{"": "", "yesterday": "yesterday", "2026-01-01T00:00:00Z": "2026-01-01T00:00:00Z"} {
		if got := utc(text); got != want {
			t.Errorf("utc(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestNameFor: nameFor returns a valid cgroup name for any command.
func TestNameFor(t *testing.T) {
	for _, command := range []string{"sh", "/bin/sh", "cpu.sh", "tasks", "cgroup.procs", "..", "", "/", "ü", "a b", strings.Repeat("x.", 100)} {
		if name := nameFor(command); cgroup.CheckName(name) != nil {
			t.Errorf("%q: %v", command, cgroup.CheckName(name))
		}
	}
}

func TestPlan(t *testing.T) {
	const web = `{"op":"allocate","id":"web","cpu":"1500m"}` + "\n"
	machine := []string{"plan", "--machine", "core:4 pu:1"}

	// Without a file and with -, plan reads standard input.
	for _, args := range [][]string{machine, append(machine, "-")} {
		code, out, errOut := command(t, web, args...)
		if code != 0 || errOut != "" || !strings.HasPrefix(out, "1. allocate web: CPU 0 to itself, 500m of CPU 1; quota 1500m\n") {
			t.Errorf("%q: %d, %s%s", args, code, out, errOut)
		}
	}

	// A refusal is a result. A bad line ends the command after the results before it were written.
	code, out, errOut := command(t, web+web+"oops\n"+web, append(machine, "-o", "json")...)
	lines := strings.Split(out, "\n")
	if code != 2 || len(lines) != 3 || !strings.Contains(lines[1], `"error":"id-taken"`) ||
		errOut != "candor plan: standard input: line 3: must be a JSON object, got oops\n" {
		t.Errorf("%d, %s%s", code, out, errOut)
	}
	if strings.Contains(out, "explain") {
		t.Error("explain was not requested")
	}
	if _, out, _ := command(t, web, append(machine, "-o", "json", "--explain")...); !strings.Contains(out, `"explain":[{"kind":`) {
		t.Errorf("no explanation: %s", out)
	}

	// Without operations there are no results, and the SVG shows an empty machine.
	if code, out, _ := command(t, "", machine...); code != 0 || out != "" {
		t.Errorf("%d, %s", code, out)
	}
	if code, out, _ := command(t, "", append(machine, "-o", "svg")...); code != 0 || !strings.HasPrefix(out, "<svg ") {
		t.Errorf("%d, %s", code, out)
	}
}

// TestPlanStreams: plan writes a result before it reads the next line.
func TestPlanStreams(t *testing.T) {
	in, lines := io.Pipe()
	results, out := io.Pipe()
	done := make(chan int)
	go func() {
		done <- run([]string{"plan", "--machine", "core:4 pu:1", "-o", "json"}, in, out, io.Discard)
	}()
	buf := make([]byte, 4096)
	for range 3 {
		if _, err := io.WriteString(lines, `{"op":"release","id":"web"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		n, err := results.Read(buf)
		if got := string(buf[:n]); err != nil || !strings.HasSuffix(got, "}\n") || strings.Count(got, "\n") != 1 {
			t.Fatalf("%q, %v", got, err)
		}
	}
	lines.Close()
	if code := <-done; code != 0 {
		t.Errorf("code %d", code)
	}
}

// TestPlanFlags: each flag of the node options changes the plan.
func TestPlanFlags(t *testing.T) {
	allocate := func(cpu string) string { return `{"op":"allocate","id":"a","cpu":"` + cpu + `"}` }
	for _, c := range []struct {
		flags string
		in    string
		want  string
	}{
		{"", allocate("1"), `"cpus":"0"`},
		{"--reserved 0,2", allocate("1"), `"cpus":"1"`},
		{"--min-shared 500m", allocate("4"), `"no-capacity"`},
		{"--min-shared 500m", allocate("3"), `"ok":true`},
		{"--algorithm paper", allocate("1"), `"quotaMilli":1000`},
		{"--policy best-effort", allocate("1"), `"ok":true`},
	} {
		args := append([]string{"plan", "--machine", "core:4 pu:1", "-o", "json"}, strings.Fields(c.flags)...)
		if code, out, errOut := command(t, c.in, args...); code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%s %s: %d, %s%s", c.flags, c.in, code, out, errOut)
		}
	}
}

// TestMapImage: docs/images/map.svg equals the output of candor plan.
func TestMapImage(t *testing.T) {
	want, err := os.ReadFile("../../docs/images/map.svg")
	if err != nil {
		t.Fatal(err)
	}
	_, out, errOut := command(t, "", "plan", "--machine", "pack:2 numa:1 l3:1 core:4 pu:2", "-o", "svg", "../../docs/examples/map.jsonl")
	if out != string(want) {
		t.Errorf("docs/images/map.svg is out of date: make docs-images rewrites it (%s)", errOut)
	}
}

// TestHelp: each command has a short help and examples, and --help exits with 0.
func TestHelp(t *testing.T) {
	root, _ := newRoot()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		args := slices.Concat(strings.Fields(c.CommandPath())[1:], []string{"--help"})
		code, out, errOut := command(t, "", args...)
		if code != 0 || errOut != "" || !strings.Contains(out, "Usage:") {
			t.Errorf("%s --help: %d, %s%s", c.CommandPath(), code, out, errOut)
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short help %q", c.CommandPath(), c.Short)
		}
		isCobras := strings.HasPrefix(c.CommandPath(), "candor completion")
		if !c.HasSubCommands() && !c.Hidden && !isCobras && !strings.Contains(out, "Examples:") {
			t.Errorf("%s --help has no examples", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				walk(sub)
			}
		}
	}
	walk(root)
}

// TestFullDisk: a failed write to standard output is an error, also for help.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, line := range []string{"", "help", "help run", "--help", "run --help", "setup", "completion", "completion bash --help",
		"--version", "version", "topology --machine core:4", "advise --target delay-p99<1s " + recordingOf(t, 30000, true)} {
		var errOut bytes.Buffer
		code := run(strings.Fields(line), strings.NewReader(""), full, &errOut)
		if want := errorPrefix(t, strings.Fields(line)) + "write /dev/full: no space left on device\n"; code != 1 || errOut.String() != want {
			t.Errorf("candor %s: code %d, %q; want %q", line, code, &errOut, want)
		}
	}
}

// TestCompletion runs the hidden command __complete like a shell and checks the first proposals.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"plan --algorithm |": "candor\npaper\n",
		"plan --policy |":    "strict\nbest-effort\n",
		"plan -o |":          "table\nwide\njson\nsvg\n",
		"run --class |":      "sensitive\nflexible\n",
		"run --topology |":   "prefer\nsingle-numa\nsingle-l3\nwhole-cores\nnone\n",
		"map --color |":      "auto\nalways\nnever\n",
		"completion |":       "bash\t",
		"pla|":               "place\t",
		"place --minimize |": "nodes\nsharing\n",
	} {
		args := strings.Fields("__complete " + strings.TrimSuffix(line, "|"))
		if strings.HasSuffix(line, " |") {
			args = append(args, "")
		}
		if _, out, _ := command(t, "", args...); !strings.HasPrefix(out, want) {
			t.Errorf("%s: %q, want %q", line, out, want)
		}
	}
}

// TestOfferedValues: each flag accepts the values that completion offers, and refuses an unknown value.
func TestOfferedValues(t *testing.T) {
	root, _ := newRoot()
	plan, _, err := root.Find([]string{"plan"})
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cmd   *cobra.Command
		flag  string
		words []string
	}{{plan, "algorithm", algorithmWords}, {plan, "policy", policyWords}, {run, "class", classWords}, {run, "topology", topologyWords}} {
		for _, word := range c.words {
			if err := c.cmd.Flags().Set(c.flag, word); err != nil || c.cmd.Flag(c.flag).Value.String() != word {
				t.Errorf("--%s %s: %v", c.flag, word, err)
			}
		}
		if err := c.cmd.Flags().Set(c.flag, c.words[0]+"x"); err == nil {
			t.Errorf("--%s accepts an unknown value", c.flag)
		}
	}
}
