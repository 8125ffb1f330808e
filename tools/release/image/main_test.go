package main

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// binaries writes a program for two architectures and returns the arguments of image build for them.
func binaries(t *testing.T) []string {
	t.Helper()
	var args []string
	for _, arch := range []string{"amd64", "arm64"} {
		file := filepath.Join(t.TempDir(), "candor-"+arch)
		if err := os.WriteFile(file, []byte("program for "+arch), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, arch+"="+file)
	}
	return args
}

// built runs image build in a new layout and returns the layout and the digest.
func built(t *testing.T) (layout, digest string) {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1764201600")
	layout = filepath.Join(t.TempDir(), "layout")
	digest, err := run(append([]string{"build", layout, "candor", "v1.2.3", "0123abc"}, binaries(t)...))
	if err != nil {
		t.Fatal(err)
	}
	return layout, digest
}

// TestBuild: two runs write the same layout, from files with other modes and times.
func TestBuild(t *testing.T) {
	one, digest := built(t)
	other, again := built(t)
	if digest != again || !strings.HasPrefix(digest, "sha256:") {
		t.Errorf("digests %s and %s", digest, again)
	}
	for _, name := range []string{"index.json", "oci-layout"} {
		if a, b := read(t, filepath.Join(one, name)), read(t, filepath.Join(other, name)); a != b || a == "" {
			t.Errorf("%s differs:\n%s\n%s", name, a, b)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// quietRegistry starts a registry in memory, on an IP address of this machine, and returns its address. It has no TLS.
func quietRegistry(t *testing.T, ip string) string {
	t.Helper()
	server := httptest.NewUnstartedServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	server.Listener.Close()
	server.Listener = must(net.Listen("tcp", ip+":0"))
	server.Start()
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// TestPushPlainHTTP: only with --plain-http, an image is pushed without TLS to a registry whose address is not of this machine or a
// private network. 127.0.0.1 counts as such an address, but not 127.0.0.2.
func TestPushPlainHTTP(t *testing.T) {
	dir, digest := built(t)
	address := quietRegistry(t, "127.0.0.2")
	if out, err := run([]string{"push", dir, address + "/candor:v1"}); err == nil {
		t.Errorf("without --plain-http: %q", out)
	}
	if out, err := run([]string{"push", "--plain-http", dir, address + "/candor:v1"}); err != nil || out != address+"/candor@"+digest {
		t.Errorf("%q, %v", out, err)
	}
}

// TestPush: a pushed index has the digest of the build, an image for each architecture, and OCI media types only.
func TestPush(t *testing.T) {
	dir, digest := built(t)
	address := quietRegistry(t, "127.0.0.1")
	for range 2 {
		pushed, err := run([]string{"push", dir, address + "/test/candor:v1.2.3"})
		if want := address + "/test/candor@" + digest; err != nil || pushed != want {
			t.Fatalf("%q, %v; want %q", pushed, err, want)
		}
	}
	index, err := remote.Index(must(name.ParseReference(address + "/test/candor:v1.2.3")))
	if err != nil {
		t.Fatal(err)
	}
	manifest := must(index.IndexManifest())
	if len(manifest.Manifests) != 2 || manifest.MediaType != "application/vnd.oci.image.index.v1+json" ||
		manifest.Annotations["org.opencontainers.image.version"] != "v1.2.3" {
		t.Fatalf("%+v", manifest)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		if d := manifest.Manifests[i]; d.Platform.String() != "linux/"+arch || d.MediaType != "application/vnd.oci.image.manifest.v1+json" {
			t.Errorf("%+v", d)
		}
		checkImage(t, must(index.Image(manifest.Manifests[i].Digest)), arch)
	}
}

func checkImage(t *testing.T, image v1.Image, arch string) {
	t.Helper()
	manifest := must(image.Manifest())
	if manifest.Config.MediaType != "application/vnd.oci.image.config.v1+json" || len(manifest.Layers) != 1 ||
		manifest.Layers[0].MediaType != "application/vnd.oci.image.layer.v1.tar+gzip" {
		t.Errorf("%s: %s", arch, must(json.Marshal(manifest)))
	}
	config := must(image.ConfigFile())
	if config.Architecture != arch || config.OS != "linux" || strings.Join(config.Config.Entrypoint, " ") != "/candor" ||
		config.Config.Labels["org.opencontainers.image.revision"] != "0123abc" {
		t.Errorf("%+v", config)
	}
	layer := must(must(image.Layers())[0].Uncompressed())
	if text := must(io.ReadAll(layer)); !strings.Contains(string(text), "program for "+arch) {
		t.Errorf("%s: the layer lacks the program", arch)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestRefusals: bad arguments, a layout of another program and a registry that refuses are errors that name the cause.
func TestRefusals(t *testing.T) {
	dir, _ := built(t)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer refusing.Close()
	address := strings.TrimPrefix(refusing.URL, "http://")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "must be build "},
		{[]string{"push", dir}, "must be build "},
		{[]string{"push", "--http", dir, address + "/candor:1"}, "must be build "},
		{[]string{"push", dir, "Not A Reference"}, "could not parse reference"},
		{[]string{"push", t.TempDir(), address + "/candor:1"}, "index.json"},
		{[]string{"push", dir, address + "/candor:1"}, "cannot push " + address + "/candor:1: "},
		{[]string{"build", t.TempDir(), "candor", "v1", "abc", "amd64=/no/such/file"}, "/no/such/file"},
	} {
		if out, err := run(c.args); err == nil || out != "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %q, %v; want an error with %q", c.args, out, err, c.want)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := run(append([]string{"build", t.TempDir(), "candor", "v1", "abc"}, binaries(t)...)); err == nil || !strings.Contains(err.Error(), `"yesterday"`) {
		t.Errorf("bad SOURCE_DATE_EPOCH: %v", err)
	}
}
