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
	if err := f.show(&text, class); err != nil || !strings.HasPrefix(text.String(), "Warning: other processes used 23 % of the CPUs of this measurement\nWORKLOAD ") {
		t.Errorf("%v\n%s", err, &text)
	}
	f.output.value = "json"
	var got struct{ Interference interference.Report }
	if err := f.show(&data, class); err != nil || json.Unmarshal(data.Bytes(), &got) != nil || got.Interference != *class.Interference {
		t.Errorf("%v\n%s", err, &data)
	}
	text.Reset()
	f.output.value, class.Interference = "table", nil
	if err := f.show(&text, class); err != nil || !strings.HasPrefix(text.String(), "WORKLOAD ") {
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
