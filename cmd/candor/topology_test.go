package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// runTopology runs candor topology and returns its exit code and output.
func runTopology(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = run(append([]string{"topology"}, args...), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestTopologyCommand(t *testing.T) {
	const description = "pack:2 numa:1 l3:1 core:2 pu:2"
	code, tree, errOut := runTopology("--machine", description)
	if code != 0 || errOut != "" || !strings.HasPrefix(tree, "2 sockets, 2 NUMA nodes, 2 L3 domains, 4 cores, 8 CPUs\n") {
		t.Fatalf("exit code %d, %q, %q", code, tree, errOut)
	}
	code, encoded, _ := runTopology("--machine", description, "-o", "json")
	if code != 0 || !strings.HasPrefix(encoded, "{\n  \"online\": \"0-7\",\n") {
		t.Fatalf("exit code %d, %q", code, encoded)
	}
	file := filepath.Join(t.TempDir(), "machine")
	if err := os.WriteFile(file, []byte(encoded), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, again, errOut := runTopology("--machine", file); code != 0 || again != tree {
		t.Errorf("from its JSON: exit code %d, %q\ngot\n%swant\n%s", code, errOut, again, tree)
	}
	if code, _, errOut := runTopology(); code != 0 {
		t.Errorf("this machine: exit code %d, %s", code, errOut)
	}
	// The machine can be a directory with sysfs files of another machine.
	root := t.TempDir()
	cpus := filepath.Join(root, "sys/devices/system/cpu")
	if err := os.MkdirAll(cpus, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cpus, "online"), []byte("0-4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, tree, errOut := runTopology("--machine", root); code != 0 || !strings.Contains(tree, "5 CPUs") {
		t.Errorf("a directory: exit code %d, %q, %q", code, tree, errOut)
	}
}

func TestTopologyBadInput(t *testing.T) {
	dir := t.TempDir()
	garbage, fifo, huge := filepath.Join(dir, "garbage.json"), filepath.Join(dir, "fifo"), filepath.Join(dir, "huge")
	if err := os.WriteFile(garbage, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 1<<40); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--machine", ""}, "no levels"},
		{[]string{"--machine", "core:0"}, "must be 1 to 1024 CPUs"},
		{[]string{"--machine", "pack:1000 core:1000"}, "more than 1024 CPUs"},
		{[]string{"--machine", "core:1000000"}, "must be 1 to 1024 CPUs"},
		{[]string{"--machine", "pack:x"}, "is not a number"},
		{[]string{"--machine", "./nothing"}, "no such file"},
		{[]string{"--machine", "nothing.json"}, "no such file"},
		{[]string{"--machine", strings.Repeat("x", 5000)}, "unknown level"},
		{[]string{"--machine", "core:1\x00"}, "is not a number"},
		{[]string{"--machine", garbage}, "must be a machine as candor topology -o json writes it"},
		{[]string{"--machine", huge}, "longer than 4 MiB"},
		{[]string{"--machine", fifo}, "not a regular file"},
		{[]string{"--machine", dir}, "no online CPU"},
		{[]string{"-o", "xml"}, "tree, json"},
		{[]string{"core:4"}, "takes no arguments"},
	}
	for _, tt := range tests {
		code, out, errOut := runTopology(tt.args...)
		if code != exitBadInput || out != "" || !strings.Contains(errOut, tt.want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%.80q: exit code %d, %q, %q; want 2 and one line with %q", tt.args, code, out, errOut, tt.want)
		}
	}
}

// TestTopologyDocs: each example with --machine in docs/topology.md equals the output of the command.
func TestTopologyDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/topology.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```\n\\$ candor topology --machine \"([^\"]*)\"( -o json)?\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(examples) < 3 {
		t.Fatalf("found %d examples", len(examples))
	}
	for _, e := range examples {
		args := []string{"--machine", e[1]}
		if e[2] != "" {
			args = append(args, "-o", "json")
		}
		if _, out, errOut := runTopology(args...); out+errOut != e[3] {
			t.Errorf("%q: got\n%s%swant\n%s", args, out, errOut, e[3])
		}
	}
}
