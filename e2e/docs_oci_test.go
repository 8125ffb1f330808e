package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The compose file of docs/oci.md is what compose reads, and its services are what the page says, started as compose starts them.
func TestDockerCompose(t *testing.T) {
	page, err := os.ReadFile("../docs/oci.md")
	if os.IsNotExist(err) && os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("no documents in the guest")
	}
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(services:\n.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/oci.md has no compose file")
	}
	var file struct {
		Services map[string]struct {
			Image, Runtime string
			CPUs           float64 `yaml:"cpus"`
			Environment    map[string]string
		}
	}
	d := yaml.NewDecoder(strings.NewReader(string(block[1])))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil || len(file.Services) != 2 {
		t.Fatalf("%v: %+v", err, file)
	}
	docker := newDocker(t)
	docker.need(2)
	for name, class := range map[string]string{"web": "sensitive", "log": "flexible"} {
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
