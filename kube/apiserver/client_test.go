package apiserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/internal/apitest"
)

// TestListByPages lists objects in two pages. If the continue token has expired, the client starts again; a
// token that repeats without end is an error.
func TestListByPages(t *testing.T) {
	pages := map[string]string{
		"":   `{"metadata":{"continue":"b&"},"items":[1,2]}`,
		"b&": `{"metadata":{},"items":[3]}`,
	}
	expired := 1
	s := apitest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		next := r.URL.Query().Get("continue")
		if next != "" && expired > 0 {
			expired--
			w.WriteHeader(http.StatusGone)
			fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"Expired","code":410}`)
			return
		}
		fmt.Fprint(w, pages[next])
	})
	c := newClient(t, t.TempDir(), apitest.Kubeconfig(s.URL, apitest.Trust(s), "token: x"))
	if all, err := List[int](t.Context(), c, "/numbers"); err != nil || fmt.Sprint(all) != "[1 2 3]" {
		t.Errorf("got %v, %v; want [1 2 3]", all, err)
	}
	pages["b&"] = `{"metadata":{"continue":"b&"},"items":[]}`
	if _, err := List[int](t.Context(), c, "/numbers"); err == nil || !strings.Contains(err.Error(), "without end") {
		t.Error(err)
	}
}

// TestEndlessResponse: the client stops reading a response without an end after 64 MiB, and returns an error.
func TestEndlessResponse(t *testing.T) {
	s := apitest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		for block := make([]byte, 1<<20); r.Context().Err() == nil; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	file := apitest.Write(t, t.TempDir(), "kubeconfig", apitest.Kubeconfig(s.URL, apitest.Trust(s), "token: x"))
	c, err := New(Options{Kubeconfig: file, Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), "/version", &struct{}{}); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Error(err)
	}
}
