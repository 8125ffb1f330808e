package web

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// until waits for a condition, for at most 20 s.
func until(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", condition)
		}
	}
}

// newWatchingServer returns a server that watches an API server.
func newWatchingServer(t *testing.T, l *listWatch) *Server {
	t.Helper()
	s, err := New(Options{Config: configOf(l.Server), Announce: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	s.sessionAccess, s.access = nil, allowAll{}
	go func() {
		if err := s.reports.watch(t.Context(), s.options.Config); err != nil {
			t.Error(err)
		}
	}()
	return s
}

// revisionOf returns the revision of a map that a browser reads now.
func revisionOf(s *Server) uint64 {
	s.reports.mu.Lock()
	defer s.reports.mu.Unlock()
	return s.reports.revision
}

// TestOneWatch: with 1 and with 100 browsers, the API server receives the same requests for reports: one watch, or one list and
// one watch. All browsers receive a change.
func TestOneWatch(t *testing.T) {
	for _, browsers := range []int{1, 100} {
		l := newListWatch(t, nil, reportOf(t, "a"), reportOf(t, "b"))
		s := newWatchingServer(t, l)
		<-s.reports.synced
		ctx, cancel := context.WithCancel(t.Context())
		var all []*recorder
		for range browsers {
			if w := s.request("GET", "/api/map", "", ""); w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			w, _ := openStream(ctx, s, revisionOf(s))
			all = append(all, w)
		}
		changed := reportOf(t, "b", 2500)
		changed.ResourceVersion = "2"
		l.changes <- changed
		for i, w := range all {
			text := ""
			until(t, "browser has the change", func() bool {
				text += w.take()
				return strings.Contains(text, "data: ")
			})
			if _, nodes := eventOf(t, text[strings.LastIndex(text, "data: "):]); len(nodes) != 1 || nodes[0].Name != "b" {
				t.Errorf("browser %d: %+v", i, nodes)
			}
		}
		cancel()
		l.mu.Lock()
		requests := slices.Clone(l.requests)
		l.mu.Unlock()
		if text := strings.Join(requests, " "); text != "watch" && text != "list watch" {
			t.Errorf("%d browsers: the API server received %q", browsers, text)
		}
	}
}

// TestRefusedWatch: the page shows the API server's refusal with the next step, and the map when the rights are there.
func TestRefusedWatch(t *testing.T) {
	l := newListWatch(t, nil, reportOf(t, "a"))
	l.refusal = "Forbidden"
	s := newWatchingServer(t, l)
	var problem string
	until(t, "the server has a problem", func() bool {
		problem = s.reports.after(s.reports.floor).problem
		return problem != ""
	})
	if !strings.Contains(problem, "nodecpus is forbidden; the ClusterRole candor-view has the rights") {
		t.Errorf("%q", problem)
	}
	l.mu.Lock()
	l.refusal = ""
	l.mu.Unlock()
	<-s.reports.synced
	if problem := s.reports.after(s.reports.floor).problem; problem != "" {
		t.Errorf("%q after the first list", problem)
	}
}
