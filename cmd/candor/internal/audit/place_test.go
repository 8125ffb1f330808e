package audit

import (
	"strings"
	"testing"
)

var id = strings.Repeat("0123456789abcdef", 4)

func TestPlaceOf(t *testing.T) {
	for path, runtime := range map[string]string{
		"/docker/" + id:                                    "docker",
		"/system.slice/docker-" + id + ".scope":            "docker",
		"/kubepods/burstable/pod12-34/" + id:               "",
		"/kubepods/pod12/crio-" + id:                       "cri-o",
		"/libpod_parent/libpod-" + id:                      "podman",
		"/machine.slice/libpod-" + id + ".scope":           "podman",
		"/machine.slice/libpod-payload-" + id:              "",
		"/default/" + id:                                   "",
		"/system.slice/nerdctl-" + id + ".scope":           "containerd",
		"/batch/jobs/" + id:                                "",
		"/docker/" + id + "/docker/" + id:                  "docker",
		"/kubepods.slice/x.slice/crio-" + id + ".scope":    "cri-o",
		"/k.slice/p.slice/cri-containerd-" + id + ".scope": "containerd",
	} {
		if p, ok := placeOf(path); !ok || p != (place{path, id, runtime}) {
			t.Errorf("%s: %+v, %v; want runtime %q", path, p, ok, runtime)
		}
	}
	for _, path := range []string{
		"/", "/docker", "/docker/web", "/docker/" + id[:63], "/docker/" + id + "0", "/docker/" + strings.ToUpper(id),
		"/docker/" + id + "/system.slice", "/machine.slice/libpod-conmon-" + id + ".scope", "/x/crio-conmon-" + id + ".scope",
		"/docker-" + id + ".mount", "/x/-" + id, "/x/a\n-" + id, "/x/ " + id,
	} {
		if p, ok := placeOf(path); ok {
			t.Errorf("%q: got container %+v, want none", path, p)
		}
	}
}

func TestInnermostFirst(t *testing.T) {
	got := strings.Join(innermostFirst([]string{"/b", "/a/x/y", "/a/x", "/"}), " ")
	if want := "/a/x/y /a/x /a /b"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}
