package containerd

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// releaseRegistry is the address of the registry in the chart that TestReleaseFiles of deploy has built.
const releaseRegistry = "127.0.0.1:15543"

// registryConfig is the configuration of the registry, with its files in DIR.
const registryConfig = `version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: DIR/registry}}
http: {addr: ADDRESS}
`

// helmTemplate renders a chart. helm that is built by go install takes the cluster for Kubernetes 1.20.
const helmTemplate = "$(scripts/helm.sh) template --kube-version 1.30.0 "

// hostsConfig makes containerd read from the registry without TLS.
const hostsConfig = `server = "http://ADDRESS"
[host."http://ADDRESS"]
  capabilities = ["pull", "resolve"]
`

// pullConfig makes containerd read registries as in the files of HOSTS, and unpack pulled images for its snapshotter in labs.
const pullConfig = `[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = "HOSTS"
[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]
  platform = "linux/ARCH"
  snapshotter = "native"
  differ = "walking"
`

// newReleaseLab starts an engine that reads from the registry of a release, and the registry. It returns the source tree of the release
// too. It skips the test without a release.
func newReleaseLab(t *testing.T) (l *lab, source string) {
	t.Helper()
	folder := os.Getenv("CANDOR_RELEASE")
	if folder == "" {
		t.Skip("needs a release: make test-release builds one")
	}
	hosts := t.TempDir()
	l = newEngine(t, strings.NewReplacer("HOSTS", hosts, "ARCH", runtime.GOARCH).Replace(pullConfig))
	if err := os.MkdirAll(filepath.Join(hosts, releaseRegistry), 0o755); err != nil {
		t.Fatal(err)
	}
	config := strings.ReplaceAll(hostsConfig, "ADDRESS", releaseRegistry)
	if err := os.WriteFile(filepath.Join(hosts, releaseRegistry, "hosts.toml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	l.startRegistry()
	return l, filepath.Join(folder, "a")
}

// pullCandor pulls the image of candor that a release names in images.txt.
func (l *lab) pullCandor(source string) {
	l.Helper()
	references := strings.Fields(must[string](l)(readText(filepath.Join(source, "dist/images.txt"))))
	l.pull(releaseRegistry + "/candor/candor@" + digestOf(references[0]))
}

// TestReleaseRegistry pushes a release to a registry. containerd pulls the image by its digest, and the pod of the chart in the
// registry gives containers their CPUs.
func TestReleaseRegistry(t *testing.T) {
	l, source := newReleaseLab(t)
	references := strings.Fields(must[string](t)(readText(filepath.Join(source, "dist/images.txt"))))
	chart := ""
	for _, built := range []string{source, filepath.Join(filepath.Dir(source), "other", "directory"), source} { // two builds of a release
		pushed := strings.Fields(l.runIn(built, "scripts/push.sh", "images", "chart"))
		if len(pushed) != 3 || digestOf(pushed[0]) != digestOf(references[0]) || digestOf(pushed[1]) != digestOf(references[1]) {
			t.Fatalf("make push prints %q, want the digests of %q", pushed, references)
		}
		if chart != "" && pushed[2] != chart {
			t.Errorf("the chart of %s is %s, want %s as of another build", built, pushed[2], chart)
		}
		chart = pushed[2]
	}
	l.pullCandor(source)

	rendered := l.runIn(source, "sh", "-c", helmTemplate+"candor oci://"+releaseRegistry+
		"/candor/charts/candor --version 0.0.1-test.1 --plain-http --namespace candor-system")
	l.write("manifests.yaml", rendered)
	l.manifests = l.path("manifests.yaml")
	c := l.startChart()
	defer c.stop()
	web := must[*container](t)(must[*pod](t)(l.newPod(500, 500, sensitivePod)).run("web", 500, 500, true))
	web.sees()
	if output := c.output(); strings.Contains(output, "level=ERROR") {
		t.Errorf("the log:\n%s", output)
	}
}

func readText(file string) (string, error) {
	text, err := os.ReadFile(file)
	return string(text), err
}

// digestOf returns the digest of a reference.
func digestOf(reference string) string {
	_, digest, _ := strings.Cut(reference, "@")
	return digest
}

// runIn runs a program in the source tree of a release and returns its standard output.
func (l *lab) runIn(dir, program string, args ...string) string {
	l.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PLAIN_HTTP=1")
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		l.Fatalf("%s %q: %v\n%s%s", program, args, err, out, &errors)
	}
	return string(out)
}

// startRegistry starts the registry of the distribution project, and waits until it answers.
func (l *lab) startRegistry() {
	l.Helper()
	l.Setenv("OTEL_TRACES_EXPORTER", "none")
	l.write("registry.yaml", strings.NewReplacer("DIR", l.dir, "ADDRESS", releaseRegistry).Replace(registryConfig))
	program := must[string](l)(filepath.Abs("../../bin/tools/release/registry"))
	d := l.start(program, "serve", l.path("registry.yaml"))
	l.Cleanup(d.kill)
	l.wait("the registry", d, func() bool {
		r, err := http.Get("http://" + releaseRegistry + "/v2/")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

// pull makes the runtime pull an image.
func (l *lab) pull(reference string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	images := cri.NewImageServiceClient(l.conn)
	if _, err := images.PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: reference}}); err != nil {
		l.Fatal(fmt.Errorf("pull %s: %w", reference, err))
	}
}
