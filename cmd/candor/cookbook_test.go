package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/candor-project/candor/experiment"
)

var (
	// cookbookSections matches the sections of a page of the cookbook.
	cookbookSections = regexp.MustCompile(`(?s)^# [^\n]+\n\n## Gain\n(.*)\n## Number of (?:threads|workers|processes)\n.*\n## Class and settings\n.*\n## Check\n(.*)\n## Limits\n`)
	// cookbookCommand matches a candor command in a code block. A backslash at the end of a line continues the command.
	cookbookCommand = regexp.MustCompile(`(?m)^[#$] candor ((?:[^\n]*\\\n)*[^\n]*)$`)
	// cookbookMeasurement matches a call of the script that measures the programs.
	cookbookMeasurement = regexp.MustCompile(`(?m)^# scripts/cookbook\.sh ([^#\n]+)`)
)

// cookbookPages returns the text of each page of the cookbook, except the index.
func cookbookPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/cookbook/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(file); name != "index.md" {
			pages[name] = string(text)
		}
	}
	if len(pages) < 8 {
		t.Fatalf("%d pages, want at least 8", len(pages))
	}
	return pages
}

// TestCookbookPages checks the sections and the commands of each page. A page states a measured gain with its source, or that the
// gain is not measured.
func TestCookbookPages(t *testing.T) {
	for name, text := range cookbookPages(t) {
		sections := cookbookSections.FindStringSubmatch(text)
		if sections == nil {
			t.Errorf("%s: the sections must be Gain, Number of threads, Class and settings, Check, Limits", name)
			continue
		}
		gain, check := sections[1], strings.Join(strings.Fields(sections[2]), " ")
		first, _, _ := strings.Cut(strings.TrimSpace(gain), "\n\n")
		if !strings.Contains(first, "Not measured") && !strings.Contains(first, "](../benchmarks/") {
			t.Errorf("%s: the first paragraph of Gain links no measurement and does not state \"Not measured\"", name)
		}
		if !strings.Contains(check, "candor classify") || !strings.Contains(check, "candor compare") || !strings.Contains(check, "# scripts/cookbook.sh ") {
			t.Errorf("%s: Check must use candor classify, candor compare and scripts/cookbook.sh", name)
		}
		for _, line := range cookbookCommand.FindAllStringSubmatch(text, -1) {
			if err := parseCommandLine(line[1]); err != nil {
				t.Errorf("%s: candor %s: %v", name, line[1], err)
			}
		}
	}
}

// parseCommandLine parses a command line of candor, as a user writes it in a shell, and runs nothing.
func parseCommandLine(line string) error {
	words, err := splitWords(strings.TrimSuffix(strings.ReplaceAll(line, "\\\n", " "), " &"))
	if err != nil {
		return err
	}
	root, _ := newRoot()
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if cmd == root {
		return unknownCommand(root, words[0])
	}
	return errors.Join(cmd.ParseFlags(rest), checkExperimentFlags(cmd.Flags()))
}

// checkExperimentFlags checks the values of --setups and --metric, which the flags themselves accept as text.
func checkExperimentFlags(flags *pflag.FlagSet) error {
	var errs []error
	if setups, err := flags.GetString("setups"); err == nil {
		for text := range strings.SplitSeq(setups, ",") {
			_, err := experiment.ParseSetup(text, 1000)
			errs = append(errs, err)
		}
	}
	metrics, err := flags.GetStringArray("metric")
	if metric, stringErr := flags.GetString("metric"); err != nil && stringErr == nil && metric != "" {
		metrics = []string{metric}
	}
	for _, text := range metrics {
		_, err := experiment.ParseMetric(text)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// TestParseCommandLine checks that the test of the cookbook detects wrong commands.
func TestParseCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		"compare --cpu 1 --setups quota,candor -- ./solver --threads 4": "",
		"compare --cpu 1 \\\n    -n 15 -- ./solver":                     "",
		"comparison --cpu 1":                                   "unknown command",
		"classify --probe --setups quota -- ./solver":          "unknown flag: --setups",
		"compare --cpu many -- ./solver":                       "must be a number of CPUs",
		"compare --cpu 1 --setups quotas -- ./solver":          "must be one of",
		"classify --cpu 1 --metric 'rate: (' -- ./solver":      "bad metric",
		"compare --cpu 1 --metric 'a=x: ([0-9]' -- ./solver":   "bad metric",
		"run --cpu 1 --class sensitiv -- ./solver":             "must be one of",
		"compare --cpu 1 --metric 'a=x: ([0-9]+)' -- ./solver": "",
	} {
		err := parseCommandLine(line)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("candor %s: %v, want %q", line, err, want)
		}
	}
}

// cookbookScript runs scripts/cookbook.sh, which only prints its commands, and returns its exit code and its output.
func cookbookScript(t *testing.T, env string, programs ...string) (code int, out string) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command("scripts/cookbook.sh", programs...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "DRY_RUN=1", "CANDOR=candor", "SETUPS=", env)
	text, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// TestCookbookScript checks the commands of the script, and that the pages name each of its programs.
func TestCookbookScript(t *testing.T) {
	var measured, named []string
	for _, env := range []string{"CLASSIFY=", "CLASSIFY=1"} {
		code, out := cookbookScript(t, env)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if code != 0 || len(lines) < 20 {
			t.Fatalf("%s: exit code %d\n%s", env, code, out)
		}
		for _, line := range lines {
			text, found := strings.CutPrefix(line, "candor ")
			if !found {
				t.Fatalf("%s: not a candor command: %s", env, line)
			}
			if err := parseCommandLine(text); err != nil {
				t.Errorf("%s: %s: %v", env, line, err)
			}
			if words := strings.Fields(text); words[0] == "compare" {
				measured = append(measured, words[2])
			}
		}
	}
	for _, text := range cookbookPages(t) {
		for _, call := range cookbookMeasurement.FindAllStringSubmatch(text, -1) {
			named = append(named, strings.Fields(call[1])...)
		}
	}
	slices.Sort(measured)
	slices.Sort(named)
	if measured = slices.Compact(measured); !slices.Equal(measured, named) {
		t.Errorf("the script measures %v, and the pages name %v", measured, named)
	}
	if code, out := cookbookScript(t, "CLASSIFY=", "jvm", "java"); code != 2 || !strings.Contains(out, "unknown program java: use jvm, ") {
		t.Errorf("unknown program: exit code %d, %s", code, out)
	}
}
