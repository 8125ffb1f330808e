package e2e

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// composeFile is the compose file of docs/docker.md.
func composeFile(t *testing.T) []byte {
	t.Helper()
	page, err := os.ReadFile("../docs/docker.md")
	if os.IsNotExist(err) && os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("no documents in the guest")
	}
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(services:\n.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/docker.md has no compose file")
	}
	return block[1]
}

// composeClasses are the classes of the services in composeFile.
var composeClasses = map[string]string{"web": "sensitive", "log": "flexible"}

// TestDockerCompose: docker compose accepts the compose file of docs/docker.md, and each service has the
// class that the page states.
func TestDockerCompose(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Image, Runtime string
			CPUs           float64 `yaml:"cpus"`
			Environment    map[string]string
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(composeFile(t)))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil || len(file.Services) != len(composeClasses) {
		t.Fatalf("%v: %+v", err, file)
	}
	docker := newDocker(t)
	docker.need(2)
	for name, class := range composeClasses {
		service := file.Services[name]
		args := []string{"run", "-d", "--network=none", "--name=" + name, "--runtime=" + service.Runtime}
		if service.CPUs != 0 {
			args = append(args, fmt.Sprint("--cpus=", service.CPUs))
		}
		for key, value := range service.Environment {
			args = append(args, "--env="+key+"="+value)
		}
		id := docker.does(append(args, "box", "sleep", "9999")...)[:12]
		if r := docker.ps()[id]; r.Class != class || float64(r.Limit) != service.CPUs*1000 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	docker.honest()
	docker.does("rm", "-f", "web", "log")
	docker.empty()
}

// TestDockerComposeUp: Docker Compose starts, scales, recreates and ends the containers.
func TestDockerComposeUp(t *testing.T) {
	text := composeFile(t)
	d := newDocker(t)
	d.need(2)
	if got := do(t, d.docker("compose", "version")); got.code != 0 {
		t.Skipf("optional: docker has no compose (%s): make test-engines builds it and runs this", strings.TrimSpace(got.err))
	}
	here := `services:
  web: {image: box, command: [sleep, "9999"], network_mode: none, stop_signal: KILL}
  log: {image: box, command: [sleep, "9999"], network_mode: none, stop_signal: KILL}
`
	for name, text := range map[string][]byte{"compose.yaml": text, "here.yaml": []byte(here)} {
		if err := os.WriteFile(d.in(name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	line := func(args ...string) []string {
		return append([]string{"compose", "--project-name", "candor", "--file", d.in("compose.yaml"), "--file", d.in("here.yaml")}, args...)
	}
	compose := func(args ...string) string {
		t.Helper()
		return d.does(line(args...)...)
	}
	check := func(logs int) {
		t.Helper()
		rows := d.ps()
		if len(rows) != 1+logs {
			t.Errorf("%d containers, want %d", len(rows), 1+logs)
		}
		for name, class := range composeClasses {
			for id := range strings.FieldsSeq(compose("ps", "--quiet", name)) {
				if r := rows[id[:12]]; r.State != "running" || r.Class != class {
					t.Errorf("%s: %+v", name, r)
				}
			}
		}
		d.honest()
	}
	compose("up", "--detach")
	check(1)
	web := compose("ps", "--quiet", "web")
	d.check(web[:12], 1500, 2)
	compose("up", "--detach", "--scale", "log=3")
	check(3)
	before := d.ps()[web[:12]]
	compose("restart")
	check(3)
	if after := d.ps()[web[:12]]; after.CPUs != before.CPUs || after.PID == before.PID {
		t.Errorf("restarted, %+v became %+v", before, after)
	}
	got := do(t, d.docker(line("up", "--detach", "--scale", fmt.Sprintf("web=%d", d.usable.Count()))...))
	if got.code == 0 || !strings.Contains(got.err, "no capacity") {
		t.Errorf("more than there are CPUs for: %+v", got)
	}
	d.honest()
	compose("down")
	d.empty()
}

// TestDockerAnnotation: an annotation on Docker's command line sets the class; it overrides the environment.
func TestDockerAnnotation(t *testing.T) {
	d := newDocker(t)
	var minor int
	if _, err := fmt.Sscanf(d.does("version", "--format", "{{.Server.APIVersion}}"), "1.%d", &minor); err != nil {
		t.Fatal(err)
	}
	if minor < 43 || !strings.Contains(do(t, d.docker("run", "--help")).out, "--annotation") {
		t.Skip("optional: this Docker is older than 24 and has no annotations: make test-engines builds one and runs this")
	}
	run := []string{"run", "-d", "--network=none", "--runtime=candor", "--cpus=0.5", "-e", "CANDOR_CLASS=sensitive"}
	id := d.does(append(run, "--annotation=candor.dev/class=flexible", "--annotation=candor.dev/burst=20ms", "box", "sleep", "9999")...)[:12]
	for _, again := range []bool{false, true} {
		if again {
			d.does("restart", "-t=0", id)
		}
		has, err := d.tree.Group(id).Settings()
		if r := d.ps()[id]; r.Class != "flexible" || r.Limit != 500 || err != nil || has.Burst != 20*time.Millisecond {
			t.Errorf("%+v, %+v %v", r, has, err)
		}
	}
	d.does("rm", "-f", id)
	got := do(t, d.docker(append(run, "--annotation=candor.dev/class=x", "box", "sleep", "9999")...))
	if got.code != 125 || !strings.Contains(got.err, `annotation candor.dev/class: class "x": must be one of sensitive, flexible`) {
		t.Errorf("a class that there is not: %+v", got)
	}
	d.empty()
}
