package main

import (
	"bytes"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
)

// TestWriteResize: the result has the container's name, without control characters, and the CPUs before and after.
func TestWriteResize(t *testing.T) {
	before := &host.Grant{Engine: host.Engine{Name: "default/web/app\x1b"}}
	before.ID, before.Limit, before.CPUs = "web.app-1234", 1000, cpuset.Of(0)
	after := *before
	after.Limit, after.CPUs = 2000, cpuset.Of(0, 1)
	var out bytes.Buffer
	if err := writeResize(&out, before, &after, "not notified"); err != nil {
		t.Fatal(err)
	}
	if want := "default/web/app : limit 1 CPU, CPU 0 -> limit 2 CPUs, CPUs 0-1; not notified\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}
