package cgroup

import (
	"strings"
	"testing"
)

func TestCheckPath(t *testing.T) {
	for _, good := range []string{"/kubepods/pod1/web", "/system.slice/cri-containerd-1.scope", "/a"} {
		if err := CheckPath(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "/", "a", "/a/", "/a//b", "/a/../b", "/..", "/a\nb", "/" + strings.Repeat("a/", 2000)} {
		if err := CheckPath(bad); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20q: %v; want one line", bad, err)
		}
	}
}

func TestEnginePath(t *testing.T) {
	for given, want := range map[string]string{
		"/kubepods/burstable/pod1/abc":                        "/kubepods/burstable/pod1/abc",
		"kubepods-besteffort-podx_y.slice:cri-containerd:abc": "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podx_y.slice/cri-containerd-abc.scope",
		"system.slice::abc":                                   "/system.slice/abc.scope",
	} {
		if got, err := EnginePath(given); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", given, got, err, want)
		}
	}
	for _, bad := range []string{"", "abc", "a:b", "../x:y:z", "/a/../b"} {
		if got, err := EnginePath(bad); err == nil {
			t.Errorf("%q: taken for %s", bad, got)
		}
	}
}
