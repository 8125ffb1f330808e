package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAdvise: the cheapest setting, what sets it, and what cannot be meant.
func TestAdvise(t *testing.T) {
	file := aRecording(t, true)
	code, out, errOut := command(t, "", "advise", file, "--period", "100ms")
	if code != 0 || errOut != "" {
		t.Fatalf("%d, %s", code, errOut)
	}
	for _, want := range []string{
		"web: 0.20 CPUs on average, up to 1 at once\n",
		"It was recorded under a limit, throttled in 100.0 % of the periods: what it wanted is hidden. All that follows is a lower bound; record it without a limit\n",
		"\nLIMIT ", "\n1000m  -       sensitive  0.0 % ",
		"\nCheapest with throttled<1%: a limit of ", "\n  Kubernetes: limits cpu: ", "\n  cgroup v2: cpu.max ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if _, out, _ := command(t, "", "advise", file, "--group", "db", "--period", "1s"); strings.Contains(out, "hidden") || !strings.HasPrefix(out, "db: 0.01 CPUs") ||
		!strings.Contains(out, "candor.dev/period: 1s") {
		t.Errorf("of a group without a limit:\n%s", out)
	}
	var data struct {
		Reports []struct {
			HiddenDemand bool
			Outcomes     []struct{ CPUs, Throttled float64 }
			Cheapest     struct {
				CPUs  float64
				Meets bool
			}
		}
		NodeCPUs int
		Fillings []struct{ Containers int }
	}
	_, out, _ = command(t, "", "advise", file, file, "-o", "json", "--target", "delay-p99<5ms", "--node-cpus", "8")
	if err := json.Unmarshal([]byte(out), &data); err != nil || len(data.Reports) != 2 || data.NodeCPUs != 8 || len(data.Fillings) != 3 {
		t.Fatalf("%v, %s", err, out)
	}
	if r := data.Reports[0]; !r.HiddenDemand || len(r.Outcomes) < 10 || !r.Cheapest.Meets || r.Cheapest.CPUs < 0.2 || data.Fillings[2].Containers != 40 {
		t.Errorf("%s", out)
	}
	if _, out, _ := command(t, "", "advise", file, "--node-cpus", "8"); !strings.Contains(out, "\nA node of 8 CPUs, with equally many of each:\nWAY ") || !strings.Contains(out, "\nwithout limits     40          -  ") {
		t.Errorf("a node:\n%s", out)
	}
}

// TestAdviseBadInput: one line, and exit code 2. Where a target is out of reach the table is shown all the same.
func TestAdviseBadInput(t *testing.T) {
	file := aRecording(t, true)
	for line, want := range map[string]string{
		file + " --target fast": `--target "fast": want throttled<1%, delay-p50<1ms or delay-p99<5ms`,
		file + " --node-cpus 0": "--node-cpus 0: want 1 to 4096",
		file + " --period 2s":   "--period 2s: want 1ms to 1s",
		file + " --group x":     `--group "x": not in the recording; it has web, db`,
		"":                      "no recording: want one FILE or several",
		file + " --risk 101":    "--risk 101: want 0 to 100 (%)",
		"advise_test.go":        "advise_test.go: not a recording of version 1",
	} {
		code, out, errOut := command(t, "", append([]string{"advise"}, strings.Fields(line)...)...)
		if code != 2 || out != "" || !strings.HasPrefix(errOut, "candor: "+want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("candor advise %s: code %d, %q, %q; want %q", line, code, out, errOut, want)
		}
	}
	// With a quota of 1 ms for each 1 ms, a CPU that draws 5 ms at once leaves nothing to itself.
	code, out, errOut := command(t, "", "advise", file, "--period", "1ms", "--target", "throttled<0.001%")
	if code != 2 || !strings.Contains(out, "\nLIMIT ") || !strings.HasPrefix(errOut, "candor: "+file+": nothing reaches throttled<0.001%; the nearest is a limit of 1000m, 1ms of each 1ms") {
		t.Errorf("out of reach: %d, %s\n%s", code, errOut, out)
	}
}
