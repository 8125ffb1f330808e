package guest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/e2e/guest/report"
)

// relay reports the tests of a test binary in the guest as subtests of t, so that a failed test can be
// repeated alone. If the binary crashed or left processes or files behind, no single test explains the
// failure, and t itself fails.
func relay(t *testing.T, r report.Result) {
	t.Helper()
	tests, err := parse(r.Output)
	if err != nil {
		t.Fatal(err)
	}
	if fault := tests.fault(r); fault != "" {
		for _, test := range tests.named {
			if !test.ended() || test.outcome == "fail" {
				t.Log(test.text())
			}
		}
		t.Fatalf("%s: %s\n%s", r.Name, fault, tests.rest.String())
	}
	for _, test := range tests.named {
		t.Run(test.name, func(t *testing.T) {
			switch test.outcome {
			case "pass":
				if testing.Verbose() {
					t.Log(test.text())
				}
			case "skip":
				t.Skip(test.text())
			default:
				t.Error(test.text())
			}
		})
	}
}

type outcome struct {
	name    string
	outcome string // pass, fail, skip, or empty for a running test
	output  bytes.Buffer
}

func (o *outcome) ended() bool  { return o.outcome != "" }
func (o *outcome) text() string { return strings.TrimSpace(o.output.String()) }

type outcomes struct {
	named []*outcome
	rest  bytes.Buffer // output outside of any test
}

// fault describes a failure of the test binary that no single test explains. Without such a failure it
// returns "".
func (o *outcomes) fault(r report.Result) string {
	failed := func(test *outcome) bool { return test.outcome == "fail" }
	running := func(test *outcome) bool { return !test.ended() }
	switch {
	case r.Error != "" || r.Code > 1 || slices.ContainsFunc(o.named, running) || r.Code == 1 && !slices.ContainsFunc(o.named, failed):
		return fmt.Sprintf("ended with code %d %s", r.Code, r.Error)
	case len(o.named) == 0:
		return "no test was run"
	case len(r.Leftovers) > 0:
		return "left behind:\n" + strings.Join(r.Leftovers, "\n")
	}
	return ""
}

// parse parses the output of a test binary with -test.v=test2json. The output of a subtest belongs to its
// parent.
func parse(output []byte) (*outcomes, error) {
	cmd := exec.Command("go", "tool", "test2json")
	cmd.Stdin = bytes.NewReader(output)
	stream, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	all := &outcomes{}
	byName := map[string]*outcome{}
	events := json.NewDecoder(bytes.NewReader(stream))
	for events.More() {
		var e struct{ Action, Test, Output string }
		if err := events.Decode(&e); err != nil {
			return nil, err
		}
		name, _, sub := strings.Cut(e.Test, "/")
		if name == "" {
			all.rest.WriteString(e.Output)
			continue
		}
		test := byName[name]
		if test == nil {
			test = &outcome{name: name}
			byName[name] = test
			all.named = append(all.named, test)
		}
		test.output.WriteString(e.Output)
		if !sub && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			test.outcome = e.Action
		}
	}
	return all, nil
}
