package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestClassify: a program that becomes slower with more visible CPUs is sensitive, and its manifest gets the
// annotation.
func TestClassify(t *testing.T) {
	l := newLab(t)
	if l.usable.Count() < 2 {
		t.Skip("one CPU: quota and cpuset show the same number")
	}
	manifest := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(manifest, []byte("kind: Pod\nmetadata:\n  name: web # ours\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(manifest, 1000, 1001); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(manifest, link); err != nil {
		t.Fatal(err)
	}
	profile := filepath.Join(t.TempDir(), "web.yaml")
	out := l.ok("classify", "--cpu", "0.5", "--workload", "one='a b'", "--workload", "two=c", "--metric", `v (\d+)`, "--annotate", link, "-o", "json",
		"--profile", profile, "--labels", "app=web", "--profile-image", "*/web:*",
		"--", "sh", "-c", `echo v $(nproc) "$#" "$1"`, "sh")
	var class struct {
		Class       string
		Decided     bool
		Evaluations []struct {
			Workload, Verdict string
			LimitMilli        int
			Ratio             float64
			Pairs             int
			CI                struct{ Low, High float64 }
			Runs              []json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(out), &class); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if class.Class != "sensitive" || !class.Decided || len(class.Evaluations) != 2 {
		t.Errorf("%+v, want sensitive by two evaluations", class)
	}
	for _, e := range class.Evaluations {
		if want := float64(l.usable.Count()); e.Verdict != "sensitive" || e.LimitMilli != 500 || e.Pairs != 8 || e.Ratio < want-1e-9 || e.Ratio > want+1e-9 || len(e.Runs) != 18 {
			t.Errorf("%+v, want %g times better after 8 pairs", e, want)
		}
	}
	text, err := os.ReadFile(manifest)
	info, statErr := os.Stat(manifest)
	if want := "kind: Pod\nmetadata:\n  annotations:\n    candor.dev/class: sensitive\n  name: web # ours\n"; err != nil || string(text) != want {
		t.Errorf("manifest %v:\n%s\nwant\n%s", err, text, want)
	}
	if statErr != nil || info.Mode().Perm() != 0o640 || info.Sys().(*syscall.Stat_t).Uid != 1000 || info.Sys().(*syscall.Stat_t).Gid != 1001 {
		t.Errorf("%+v, %v; want mode and owner kept", info, statErr)
	}
	text, err = os.ReadFile(profile)
	if want := "metadata:\n  name: web\nspec:\n  selector:\n    matchLabels:\n      app: web\n  images:\n    - '*/web:*'\n  class: sensitive\n"; err != nil || !strings.HasSuffix(string(text), want) {
		t.Errorf("profile %v:\n%s\nwant\n%s", err, text, want)
	}
	if target, err := os.Readlink(link); err != nil || target != manifest {
		t.Errorf("the link goes to %q, %v", target, err)
	}
}

// TestClassifyProbe: a probe alone measures nothing, and a probe in addition to a measurement does not change
// the class.
func TestClassifyProbe(t *testing.T) {
	l := newLab(t)
	if l.usable.Count() < 2 {
		t.Skip("one CPU: quota and cpuset show the same number")
	}
	var got struct {
		Class string
		Probe struct {
			Class  string
			Starts []struct {
				CPUs, Threads int
				Sources       []struct {
					Name  string
					Asked int
				}
			}
		}
	}
	read := func(out string) {
		t.Helper()
		if err := json.Unmarshal([]byte(out), &got); err != nil || got.Probe.Class != "flexible" || len(got.Probe.Starts) != 2 {
			t.Fatalf("%v: %s; want flexible by two starts", err, out)
		}
		for _, s := range got.Probe.Starts {
			if s.Threads != 1 || len(s.Sources) != 1 || s.Sources[0].Name != "sched_getaffinity" {
				t.Errorf("%+v, want one thread that asks its affinity", s)
			}
		}
	}
	read(l.ok("classify", "--probe", "-o", "json", "--", "nproc"))
	if got.Class != "" {
		t.Errorf("class %s, and nothing was measured", got.Class)
	}
	read(l.ok("classify", "--probe", "--cpu", "0.5", "--metric", `^\d+$`, "-o", "json", "--", "nproc"))
	if got.Class != "sensitive" {
		t.Errorf("class %s, want what was measured", got.Class)
	}
	text := l.ok("classify", "--probe", "--cpu", "0.5", "--metric", `^\d+$`, "--", "nproc")
	if !strings.Contains(text, "the probe predicts: flexible: ") || !strings.Contains(text, "that is not what was measured: the class is sensitive\n") {
		t.Errorf("the two opinions are not there:\n%s", text)
	}
}

// TestClassifyBadInput: bad input is refused before the first run.
func TestClassifyBadInput(t *testing.T) {
	l := newLab(t)
	service := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(service, []byte("kind: Service\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--", "true"}, 2, "missing --cpu; must be"},
		{[]string{"--cpu", "1,x", "--", "true"}, 2, "must be limits separated by commas"},
		{[]string{"--cpu", "1"}, 2, "missing COMMAND; must be"},
		{[]string{"--cpu", "1", "--workload", "x", "--", "true"}, 2, "NAME=WORDS"},
		{[]string{"--cpu", "1", "--margin", "-1", "--", "true"}, 2, "margin"},
		{[]string{"--cpu", "1", "--metric", "(", "--", "true"}, 2, "bad metric"},
		{[]string{"--cpu", "1", "--annotate", service, "--", "true"}, 2, "0 objects with pods"},
		{[]string{"--cpu", "1", "--annotate", "/no/such/file", "--", "true"}, 2, "no such file"},
		{[]string{"--cpu", "1", "--labels", "a=b", "--", "true"}, 2, "for --profile FILE"},
		{[]string{"--cpu", "1", "--profile", "web.yaml", "--", "true"}, 2, "add --labels"},
		{[]string{"--cpu", "1", "--profile", service, "--labels", "a=b", "--", "true"}, 2, "is not a CPUProfile"},
		{[]string{"--cpu", "1", "--profile", "/no/such/web.yaml", "--labels", "a=b", "--", "true"}, 2, "no such file"},
		{[]string{"--cpu", "1", "--profile", "/tmp/My Web.yaml", "--labels", "a=b", "--", "true"}, 2, "lower case letters"},
		{[]string{"--cpu", "1", "--profile", "/tmp/web.yaml", "--labels", "a b=c", "--", "true"}, 2, "selector"},
		{[]string{"--cpu", "1", "--", "no-such-command"}, 127, "not found"},
		{[]string{"--probe"}, 2, "a probe needs a command"},
		{[]string{"--probe", "--probe-for", "0s", "--", "true"}, 2, "must be 10ms to 1h"},
		{[]string{"--probe", "--annotate", service, "--", "true"}, 2, "add --cpu"},
		{[]string{"--probe", "--", "no-such-command"}, 127, "not found"},
		{[]string{"--probe", "--", "false"}, 1, "exit code 1"},
		{[]string{"--cpu", "1000", "--", "true"}, 2, "quota and cpuset show the same number"},
	} {
		got := do(t, l.candor(append([]string{"classify"}, test.args...)...))
		if got.code != test.code || !strings.Contains(got.err, test.want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%v: exit code %d, %q; want %d and one line with %q", test.args, got.code, got.err, test.code, test.want)
		}
	}
}

// TestInterruptedEarly: after Ctrl-C while the first program runs, isolate and classify print no result and exit with 130.
func TestInterruptedEarly(t *testing.T) {
	l := newLab(t)
	l.need(2)
	started := filepath.Join(t.TempDir(), "started")
	script := "touch " + started + "; exec sleep 1000"
	for _, args := range [][]string{
		{"classify", "--probe", "--probe-for", "10m", "--", "sh", "-c", script},
		{"classify", "--probe", "--probe-for", "10m", "--cpu", "1", "--", "sh", "-c", script},
		{"isolate", "--cases", "groups", "--stressors", "cpu", "--app", "app=" + script, "--timeout", "10m"},
	} {
		if args[0] == "isolate" {
			l.needProgram("stress-ng")
		}
		os.Remove(started)
		var out, errOut bytes.Buffer
		cmd := l.candor(args...)
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		l.waitFor("the program", func() bool { _, err := os.Stat(started); return err == nil })
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 || out.Len() > 0 || !strings.Contains(errOut.String(), "stopped by SIGINT: no run done\n") {
			t.Errorf("candor %v: code %d, %q, %q; want 130", args, code, &out, &errOut)
		}
	}
}
