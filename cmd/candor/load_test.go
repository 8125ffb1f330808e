package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

func TestLoadRefuses(t *testing.T) {
	const server = "http://127.0.0.1:1/"
	for line, want := range map[string]string{
		"load":                                "missing --for; must be a time such as 60ms; or use --work, or the URL of a server",
		"load --for 1s --work 1s":             "--for and --work: use one of them",
		"load --for 1s --threads 0":           "--threads 0: must be 1 to 1024",
		"load --for 1s --rate 5":              "--rate is for clients",
		"load " + server + " --work 1s":       "--work is for a program",
		"load localhost:80":                   "must be such as http://localhost:8080/",
		"load " + server + " --rate NaN":      "must be 0.001 to 1000000",
		"load " + server + " --rate 1e-12":    "must be 0.001 to 1000000",
		"load " + server + " --rate -1":       "must be 0.001 to 1000000",
		"load " + server + " --rate Inf":      "must be 0.001 to 1000000",
		"load " + server + " --duration 1ms":  "must be 1s to 24h",
		"load " + server + " --hdr /no/where": "--hdr: open /no/where",
	} {
		code, out, errOut := command(t, "", strings.Fields(line)...)
		if code != exitBadInput || out != "" || !strings.Contains(errOut, want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q; want %q", line, code, out, errOut, want)
		}
	}
}

// TestLoadFails: if no call succeeds, an existing histogram file is not changed. If some calls fail, the
// histogram and the reason are written.
func TestLoadFails(t *testing.T) {
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) != 2 {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "calls.hgrm")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(server string) (code int, out, errOut, text string) {
		code, out, errOut = command(t, "", "load", server, "--clients", "1", "--off", "0s", "--duration", "1s", "--hdr", file, "-o", "json")
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return code, out, errOut, string(content)
	}
	if code, out, errOut, text := run("http://127.0.0.1:1/"); code != 1 || out != "" || !strings.Contains(errOut, "no call was answered") || text != "old" {
		t.Errorf("all calls fail: exit %d, %q, %q; the file has %.20q", code, out, errOut, text)
	}
	code, out, errOut, text := run(s.URL)
	if code != 1 || !strings.Contains(out, `"count": 1,`) || !strings.Contains(errOut, "calls failed, the first: ") || !strings.Contains(errOut, "418") || !strings.Contains(text, "Percentile") {
		t.Errorf("some calls fail: exit %d, %q, %q; the file has %.20q", code, out, errOut, text)
	}
}
