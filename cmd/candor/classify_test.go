package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/interference"
)

// TestClassifyWarning: the output begins with the warning about other processes, which JSON also has.
func TestClassifyWarning(t *testing.T) {
	class := &experiment.Class{Class: experiment.Flexible, Decided: true, Interference: &interference.Report{CPUs: 2, UseMilli: 460}}
	var f classifyFlags
	var text, data bytes.Buffer
	if err := f.show(&text, class); err != nil || !strings.HasPrefix(text.String(), "Warning: other processes used 23 % of the CPUs of this measurement\nclass: flexible\n\nWORKLOAD ") {
		t.Errorf("%v\n%s", err, &text)
	}
	f.output.value = "json"
	var got struct{ Interference interference.Report }
	if err := f.show(&data, class); err != nil || json.Unmarshal(data.Bytes(), &got) != nil || got.Interference != *class.Interference {
		t.Errorf("%v\n%s", err, &data)
	}
	text.Reset()
	f.output.value, class.Interference = "table", nil
	if err := f.show(&text, class); err != nil || !strings.HasPrefix(text.String(), "class: flexible\n\nWORKLOAD ") {
		t.Errorf("%v\n%s", err, &text)
	}
}

// TestAnnotateFile: the class is written through a link and replaces only the annotation; the file keeps its mode. A file that cannot be
// edited does not change.
func TestAnnotateFile(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "web.yaml"), filepath.Join(dir, "link.yaml")
	const before = "kind: Deployment # ours\nmetadata: {name: web}\nspec: {template: {metadata: {}}}\n---\nkind: Pod\nmetadata: {name: db}\n"
	if err := errors.Join(os.WriteFile(file, []byte(before), 0o640), os.Chmod(file, 0o640), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	check := func(f classifyFlags, wantErr, want string) {
		t.Helper()
		err := f.writeClass("sensitive")
		if wantErr == "" && err != nil || wantErr != "" && (err == nil || exitCode(err, true) != exitBadInput || !strings.Contains(err.Error(), wantErr)) {
			t.Errorf("%v, want %q", err, wantErr)
		}
		text, err := os.ReadFile(file)
		info, statErr := os.Stat(file)
		if err != nil || statErr != nil || string(text) != want || info.Mode() != 0o640 {
			t.Errorf("%v, %v\n%s\nwant\n%s", err, info, text, want)
		}
	}
	check(classifyFlags{annotate: link}, "several objects with pods: must be one of Deployment/web, Pod/db: add --object KIND/NAME", before)
	check(classifyFlags{annotate: link, object: "Job/web"}, "no object Job/web: must be one of Deployment/web, Pod/db", before)
	check(classifyFlags{object: "Pod/db"}, "--object is for --annotate FILE", before)
	after := strings.Replace(before, "metadata: {}", "metadata: {annotations: {candor.dev/class: sensitive}}", 1)
	check(classifyFlags{annotate: link, object: "Deployment/web"}, "", after)
	check(classifyFlags{annotate: link, object: "Deployment/web"}, "", after)
}

// TestClassifyUndecided: an undecided class gives exit code 3 and is not written. With --accept-undecided, the program counts as
// flexible, and the output says so.
func TestClassifyUndecided(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	const before = "kind: Pod\nmetadata: {name: db}\n"
	for _, test := range []struct {
		accept           bool
		class            experiment.Verdict
		code             int
		firstLine, after string
	}{
		{false, experiment.Undecided, exitUndecided, "class: undecided\n", before},
		{true, experiment.Undecided, 0, "class: flexible (undecided, and counted as flexible)\n", "kind: Pod\nmetadata: {annotations: {candor.dev/class: flexible}, name: db}\n"},
		{true, experiment.Sensitive, 0, "class: sensitive\n", "kind: Pod\nmetadata: {annotations: {candor.dev/class: sensitive}, name: db}\n"},
	} {
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		f := classifyFlags{annotate: file, accept: test.accept}
		var out bytes.Buffer
		err := f.conclude(t.Context(), &out, &experiment.Class{Class: test.class, Decided: test.class != experiment.Undecided}, nil)
		if code := codeOf(err); code != test.code || !strings.HasPrefix(out.String(), test.firstLine) || code != 0 && !strings.Contains(err.Error(), "--accept-undecided") {
			t.Errorf("%+v: code %d, %v\n%s", test, code, err, &out)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != test.after {
			t.Errorf("%+v: %v, %q", test, err, text)
		}
	}
}

// TestProbeUndecided: an undecided prediction without a measurement gives exit code 3, unless --accept-undecided is set. The
// answer is above the table.
func TestProbeUndecided(t *testing.T) {
	for _, test := range []struct {
		class     experiment.Verdict
		accept    bool
		code      int
		firstLine string
	}{
		{experiment.Undecided, false, exitUndecided, "the probe does not know: because\n\nSEES "},
		{experiment.Undecided, true, 0, "the probe does not know: because\n\nSEES "},
		{experiment.Flexible, false, 0, "the probe predicts: flexible: because\n\nSEES "},
	} {
		p := &experiment.Prediction{Class: test.class, Why: "because"}
		for _, form := range []string{"table", "json"} {
			f := classifyFlags{accept: test.accept}
			f.output.value = form
			var out bytes.Buffer
			err := f.concludeProbe(&out, p)
			if code := codeOf(err); code != test.code || form == "table" && !strings.HasPrefix(out.String(), test.firstLine) || form == "json" && !json.Valid(out.Bytes()) {
				t.Errorf("%+v: code %d, %v\n%s", test, code, err, &out)
			}
		}
	}
}

// codeOf returns the exit code for the error of a command.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	return exitCode(err, true)
}
