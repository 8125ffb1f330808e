package guest_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/candor-project/candor/e2e/guest/report"
)

// relay makes what a test binary said in the guest into subtests of t.
func relay(t *testing.T, r report.Result) {
	tests, err := parse(r.Output)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests.named {
		t.Run(test.name, func(t *testing.T) {
			switch text := strings.TrimSpace(test.output.String()); test.outcome {
			case "pass":
				if testing.Verbose() {
					t.Log(text)
				}
			case "skip":
				t.Skip(text)
			default: // "": it did not come to its end
				t.Error(text)
			}
		})
	}
	if r.Error != "" || r.Code != 0 {
		t.Errorf("%s ended with code %d %s\n%s", r.Name, r.Code, r.Error, tests.rest.String())
	}
	if len(tests.named) == 0 {
		t.Error("no test was run")
	}
	if len(r.Leftovers) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(r.Leftovers, "\n"))
	}
}

type outcome struct {
	name    string
	outcome string // pass, fail, skip or nothing
	output  bytes.Buffer
}

type outcomes struct {
	named []*outcome
	rest  bytes.Buffer // what was said outside of any test
}

// parse reads what a test binary wrote with -test.v=test2json. Subtests' output is their parent's.
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
