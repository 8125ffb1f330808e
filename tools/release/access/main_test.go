package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestAccess: a registry that refuses one of the repositories is an error that names the repository, and the check leaves no image.
func TestAccess(t *testing.T) {
	open := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/closed/") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		open.ServeHTTP(w, r)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{address + "/candor", address + "/charts/candor"}, ""},
		{[]string{"--plain-http", address + "/candor"}, ""},
		{[]string{address + "/candor", address + "/closed/candor"}, "cannot push to " + address + "/closed/candor: "},
		{[]string{"127.0.0.1:1/candor"}, "cannot push to 127.0.0.1:1/candor: "},
		{[]string{"Not A Repository"}, "repository"},
		{[]string{"--plain-http"}, "must be repositories"},
	} {
		if err := run(c.args); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
	repository, err := name.NewRepository(address + "/candor")
	if err != nil {
		t.Fatal(err)
	}
	if tags, err := remote.List(repository); err == nil && len(tags) > 0 {
		t.Errorf("the check has pushed %q", tags)
	}
}
