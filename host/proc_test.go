package host

import (
	"testing"
)

func TestReleaseAtLeast(t *testing.T) {
	for release, want := range map[string]bool{"6.2.0": true, "6.1.0-56-cloud-amd64": false, "5.15": false, "7.0-rc1": true, "6.18.44-fc": true, "": false, "x.y": false} {
		if releaseAtLeast(release, 6, 2) != want {
			t.Errorf("%q: %t", release, !want)
		}
	}
}
