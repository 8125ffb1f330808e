package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/apitest"
	"github.com/candor-project/candor/kube/publish"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/metrics"
)

// TestReloadIsAtomic: a configuration that the machine cannot satisfy, or that needs a restart, is refused.
// The host options and the plugin's options do not change.
func TestReloadIsAtomic(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("reads this machine's groups as the plugin does: needs root")
	}
	dir := t.TempDir()
	f := &nriFlags{counts: "none", config: filepath.Join(dir, "nri.yaml")}
	f.options = host.Options{StateDir: filepath.Join(dir, "state"), Config: filepath.Join(dir, "host.json"),
		Cgroup: cgroup.Options{Parent: fmt.Sprintf("/candor-reload-%d", os.Getpid()), Driver: cgroup.Cgroupfs}}
	f.stateDir = f.options.StateDir
	h, err := host.Open(f.options)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	machine, err := host.ReadMachine()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	engine := nri.NewEngine(h, nri.DefaultConfig(), log)
	reload := func(text string) error {
		t.Helper()
		if err := os.WriteFile(f.config, []byte("version: 1\n"+text), 0o644); err != nil {
			t.Fatal(err)
		}
		return f.reload(h, engine, log)
	}
	if err := reload("node: {minShared: 100m}\n"); err != nil {
		t.Fatal(err)
	}
	had, err := os.ReadFile(f.options.Config)
	if err != nil || !strings.Contains(string(had), "100m") {
		t.Fatalf("%s, %v", had, err)
	}
	for text, want := range map[string]string{
		fmt.Sprintf("node: {reserved: %q}\n", machine.Online.String()):        "would remain",
		fmt.Sprintf("node: {minShared: \"%d\"}\n", machine.Online.Count()+1):  "min-shared",
		fmt.Sprintf("node: {reserved: \"%d\"}\n", machine.Online.Last()+1000): "the machine does not have CPU ",
		"node: {minShared: lots}\n":                                           "lots",
	} {
		if err := reload(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), f.config) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	if err := reload("metrics: 9464\n"); err == nil || !strings.Contains(err.Error(), "restart it") {
		t.Errorf("changed metrics address: %v", err)
	}
	if err := reload("metricsWebConfig: /etc/candor/web-config.yml\n"); err == nil || !strings.Contains(err.Error(), "restart it for another") {
		t.Errorf("changed web configuration: %v", err)
	}
	if err := reload("recordHistogram: 100ms\n"); err == nil || !strings.Contains(err.Error(), "recordHistogram 100ms: the plugin counts none: restart it") {
		t.Errorf("changed histogram: %v", err)
	}
	f.stateDir, f.options.StateDir = "", ""
	if err := reload("stateDir: /run/other\nnode: {minShared: 200m}\n"); err == nil || !strings.Contains(err.Error(), "restart it") {
		t.Errorf("changed state directory: %v", err)
	}
	if has, err := os.ReadFile(f.options.Config); err != nil || string(has) != string(had) {
		t.Errorf("the host options changed from %s to %s, %v", had, has, err)
	}
}

// TestBadMetricsAddress: an invalid metrics address is refused before the plugin starts.
func TestBadMetricsAddress(t *testing.T) {
	for _, address := range []string{"everywhere", "localhost:9464", "1.2.3.4", "65536"} {
		code, _, errOut := command(t, "", "nri", "--metrics", address)
		if code != exitBadInput || !strings.Contains(errOut, address) || !strings.Contains(errOut, "must be a port") || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: code %d, %q", address, code, errOut)
		}
	}
}

// TestNRIBadInput: bad input is refused before the plugin changes anything, with an error of a single line
// and exit code 2.
func TestNRIBadInput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("version: 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	none, histogram := filepath.Join(dir, "nri.sock"), filepath.Join(t.TempDir(), "nri.yaml")
	if err := os.WriteFile(histogram, []byte("version: 1\nrecordHistogram: 100ms\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"not a socket":                  {"--socket", file},
		"a path of 0 bytes":             {"--socket", ""},
		"no such file":                  {"--socket", none, "--config", filepath.Join(dir, "none.yaml")},
		`version "7": must be 1`:        {"--socket", none, "--config", file},
		"must be one of text, json":     {"--socket", none, "--log", "xml"},
		"takes no arguments":            {"--socket", none, "now"},
		"not a directory":               {"--socket", none, "--observe", "--state-dir", filepath.Join(file, "state")},
		"must be one of auto, cgroupfs": {"--socket", none, "--cgroup-driver", "docker"},
		"no node: use --node-name":      {"--socket", none, "--publish", "--node-name", ""},
		`node name "a_b"`:               {"--socket", none, "--publish", "--node-name", "a_b"},
		"not with --observe":            {"--socket", none, "--publish", "--node-name", "a", "--observe"},
		"add --metrics ADDRESS":         {"--socket", none, "--record-histogram", "1s"},
		"must be one of none, 10ms":     {"--socket", none, "--record-histogram", "5ms"},
		"nri.yaml: recordHistogram ":    {"--socket", none, "--config", histogram},
		"use --kubeconfig FILE":         {"--socket", none, "--publish", "--node-name", "a", "--kubeconfig", ""},
		"no such file or directory":     {"--socket", none, "--publish", "--node-name", "a", "--kubeconfig", none},
	} {
		code, out, errOut := command(t, "", append([]string{"nri"}, args...)...)
		if code != exitBadInput || out != "" || !strings.Contains(errOut, want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%q: exit %d, %s%s; want %q", args, code, out, errOut, want)
		}
	}
	if exitCode(nriError(nri.ErrOtherManager), true) != exitBadInput {
		t.Error("ErrOtherManager does not exit with the code of bad input")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("bad input left files: %v", left)
	}
}

// TestNRIMetricsTaken: a metrics address in use is refused before the plugin changes anything.
func TestNRIMetricsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	config, options := filepath.Join(dir, "nri.yaml"), filepath.Join(dir, "host.json")
	if err := os.WriteFile(config, []byte("version: 1\nnode: {minShared: 100m}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, errOut := command(t, "", "nri", "--config", config, "--host-options", options, "--state-dir", filepath.Join(dir, "state"),
		"--metrics", taken.Addr().String())
	if code != exitBadInput || !strings.Contains(errOut, "address already in use") {
		t.Errorf("code %d: %s", code, errOut)
	}
	if _, err := os.Stat(options); err == nil {
		t.Error("the host options were written")
	}
}

// A cancelingLog cancels a context when a text is logged.
type cancelingLog struct {
	strings.Builder
	text   string
	cancel context.CancelFunc
}

func (l *cancelingLog) Write(p []byte) (int, error) {
	l.Builder.Write(p)
	if strings.Contains(l.String(), l.text) {
		l.cancel()
	}
	return len(p), nil
}

// openEmptyHost opens this machine read-only, with a state of its own and without containers.
func openEmptyHost(t *testing.T) *host.Host {
	t.Helper()
	h, err := host.Open(host.Options{StateDir: filepath.Join(t.TempDir(), "state"), Cgroup: cgroup.Options{ReadOnly: true, Parent: "/candor-no-such-group"}})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// TestNRIGiveBack: an agent with --give-back waits for the end of its predecessor. Without containers, it is ready at once, stays
// idle until it is stopped, and leaves no state.
func TestNRIGiveBack(t *testing.T) {
	h := openEmptyHost(t)
	run := func(awaited string) string {
		t.Helper()
		f := &nriFlags{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		log := &cancelingLog{text: awaited, cancel: cancel}
		f.options.Log = slog.New(slog.NewTextHandler(log, nil))
		if err := f.runGiveBack(ctx, h, metrics.New("test")); err != nil || !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("%v, context %v, log:\n%s", err, ctx.Err(), log)
		}
		return log.String()
	}
	release, err := h.HoldAgent()
	if err != nil {
		t.Fatal(err)
	}
	if log := run("cannot give all containers back yet"); !strings.Contains(log, host.ErrAgentRuns.Error()) || strings.Contains(log, "given back:") {
		t.Errorf("beside the predecessor, the log is:\n%s", log)
	}
	release()
	if log := run("all containers are given back"); strings.Contains(log, "cannot") {
		t.Errorf("the log is:\n%s", log)
	}
	if h.IsInUse() {
		t.Error("a state remains")
	}
	refusesLine(t, "candor nri: --give-back: not with --observe", "nri", "--observe", "--give-back")
}

// TestNRIGiveBackPhases: the reports have the phase GivingBack until all containers are given back, then GivenBack.
func TestNRIGiveBackPhases(t *testing.T) {
	h := openEmptyHost(t)
	phases := make(chan string, 100)
	server := apitest.Serve(t, func(w http.ResponseWriter, r *http.Request) { // the Node and the NodeCPU
		n := v1alpha1.NodeCPU{ObjectMeta: metav1.ObjectMeta{UID: "u", OwnerReferences: []metav1.OwnerReference{{UID: "u"}}}}
		if r.Method == http.MethodPut {
			if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
				t.Error(err)
			}
			phases <- n.Status.Phase
		}
		if err := json.NewEncoder(w).Encode(n); err != nil {
			t.Error(err)
		}
	})
	kubeconfig := apitest.Write(t, t.TempDir(), "kubeconfig", apitest.Kubeconfig(server.URL, apitest.Trust(server), "token: x"))
	run := func(awaited string) (seen []string) {
		t.Helper()
		f := &nriFlags{}
		f.options.Log = slog.New(slog.DiscardHandler)
		counted := metrics.New("test")
		var err error
		f.publisher, err = publish.New(publish.Options{Node: "node", Kubeconfig: kubeconfig, Version: "test", Log: f.options.Log, OnReport: counted})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- f.runGiveBack(ctx, h, counted) }()
		for len(seen) == 0 || seen[len(seen)-1] != awaited {
			select {
			case phase := <-phases:
				seen = append(seen, phase)
			case <-ctx.Done():
				t.Fatalf("the phases are %q, without %q", seen, awaited)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		return seen
	}
	release, err := h.HoldAgent()
	if err != nil {
		t.Fatal(err)
	}
	if seen := run(v1alpha1.GivingBack); len(seen) != 1 {
		t.Errorf("beside the predecessor, the phases are %q", seen)
	}
	release()
	if seen := run(v1alpha1.GivenBack); slices.Contains(seen, "") {
		t.Errorf("the phases are %q", seen)
	}
}
