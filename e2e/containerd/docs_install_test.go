package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/docblock"
)

// TestReleaseInstallDocs runs the commands of docs/install.md for Kubernetes without an API server: the doctor of the release, the chart
// that helm installs, in a pod under containerd, and the pod that kubectl runs. TestHelmInstall of e2e/kubernetes runs the same commands
// with an API server.
func TestReleaseInstallDocs(t *testing.T) {
	l, source := newReleaseLab(t)
	if all := l.all(); all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	blocks, err := docblock.Blocks("../../docs/install.md", "### Kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	l.runIn(source, "scripts/push.sh", "images", "chart")
	l.pullCandor(source)
	var c *charted
	for _, command := range blocks[0].Commands {
		switch {
		case strings.Contains(command, " doctor "):
			l.runDoctor(filepath.Join(source, "dist"), command)
		case strings.HasPrefix(command, "helm install "):
			l.write("manifests.yaml", l.runIn(source, "sh", "-c", templateOf(command)))
			l.manifests = l.path("manifests.yaml")
		case strings.Contains(command, " rollout status "):
			c = l.startChart() // and waits until it is ready
			defer c.stop()
		case strings.HasPrefix(command, "kubectl run "):
			if output := l.runPod(command); output != blocks[0].Output {
				t.Errorf("%s\nprints %q, want %q", command, output, blocks[0].Output)
			}
		case !strings.HasPrefix(command, "kubectl create namespace ") && !strings.HasPrefix(command, "kubectl label namespace "):
			t.Errorf("the test does not know how to run %s", command)
		}
	}
	if c == nil || strings.Contains(c.output(), "level=ERROR") {
		t.Errorf("the agent did not run, or its log has errors: %+v", c)
	}
}

// runDoctor runs the doctor in the files of a release. It can find defects of this machine.
func (l *lab) runDoctor(dist, command string) {
	l.Helper()
	if err := os.Chmod(filepath.Join(dist, "candor-linux-amd64"), 0o755); err != nil {
		l.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dist
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 1 && strings.Contains(string(out), " failed") {
		return
	}
	if err != nil {
		l.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// templateOf returns the command that renders the chart of a command helm install, from the registry of the test.
func templateOf(install string) string {
	command := strings.Replace(install, "helm install ", helmTemplate, 1)
	return docblock.Chart.ReplaceAllLiteralString(command, "oci://"+releaseRegistry+"/candor/charts/candor --version 0.0.1-test.1 --plain-http")
}

// runPod runs the pod of a command kubectl run with the CRI calls of a kubelet, and returns its output. Its image is busybox.
func (l *lab) runPod(command string) string {
	l.Helper()
	words, err := exec.Command("sh", "-c", `printf '%s\0' `+strings.TrimPrefix(command, "kubectl run ")).Output()
	if err != nil {
		l.Fatalf("%s: %v", command, err)
	}
	annotations, overrides := map[string]string{}, struct {
		Spec struct {
			Containers []struct {
				Name      string
				Command   []string
				Resources struct{ Limits map[string]string }
			}
		}
	}{}
	for word := range bytes.SplitSeq(words, []byte{0}) {
		name, value, _ := strings.Cut(string(word), "=")
		switch name {
		case "--annotations":
			key, value, _ := strings.Cut(value, "=")
			annotations[key] = value
		case "--overrides":
			err = json.Unmarshal([]byte(value), &overrides)
		}
	}
	if err != nil || len(overrides.Spec.Containers) != 1 {
		l.Fatalf("%s: %v, %+v", command, err, overrides)
	}
	program := overrides.Spec.Containers[0]
	limit, err := hybrid.ParseMilli(program.Resources.Limits["cpu"])
	if err != nil {
		l.Fatalf("%s: %v", command, err)
	}
	p := must[*pod](l)(l.newPod(limit, limit, annotations)) // the API server sets the missing request to the limit
	c := must[*container](l)(p.run(program.Name, limit, limit, true, program.Command...))
	if err := c.ended(); err != nil {
		l.Fatal(err)
	}
	return l.logged(c)
}

// logged returns the output of a container that has ended, from its log.
func (l *lab) logged(c *container) (output string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := l.cri.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: c.id})
	if err != nil || r.Status.ExitCode != 0 {
		l.Fatalf("%s has ended with %+v, %v", c.name, r, err)
	}
	for line := range strings.Lines(must[string](l)(readText(r.Status.LogPath))) {
		_, line, _ = strings.Cut(line, " F ") // TIME STREAM F LINE
		output += line
	}
	return output
}
