package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/candor-project/candor/kube/nodemap"
)

// TestMapOfAll: the packed map has all nodes by name, and the same bytes until a report changes.
func TestMapOfAll(t *testing.T) {
	s := newTestServer(t, nil, reportOf(t, "b", 1500), reportOf(t, "a"))
	first := s.request("GET", "/api/map", "", "")
	unpack, err := gzip.NewReader(bytes.NewReader(first.Body.Bytes()))
	if err != nil || first.Header().Get("Content-Encoding") != "gzip" {
		t.Fatal(err, first.Header())
	}
	data, err := io.ReadAll(unpack)
	if err != nil {
		t.Fatal(err)
	}
	_, nodes := decode(t, data)
	if len(nodes) != 2 || nodes[0].Name != "a" || nodes[1].Counts() != [4]int{1, 5, 1, 1} {
		t.Errorf("%+v", nodes)
	}
	if err := s.reports.Add(reportOf(t, "b", 1500)); err != nil {
		t.Fatal(err)
	}
	revision := s.reports.revision
	if err := s.reports.Add(reportOf(t, "b", 2500)); err != nil || s.reports.revision != revision+1 {
		t.Errorf("%v, revision %d, want %d", err, s.reports.revision, revision+1)
	}
	if second := s.request("GET", "/api/map", "", ""); bytes.Equal(first.Body.Bytes(), second.Body.Bytes()) {
		t.Error("the map has not changed")
	}
}

// TestMapWithoutReports: a server without the first list answers with the API server's error.
func TestMapWithoutReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(Options{}, nil)
		s.access = allowAll{}
		s.reports.setProblem(errors.New("nodecpus is forbidden"))
		w := s.request("GET", "/api/map", "", "")
		if f := answer[failure](t, w); w.Code != http.StatusBadGateway || f.Error != "nodecpus is forbidden" {
			t.Errorf("%d, %+v", w.Code, f)
		}
	})
}

// openStream opens the events after a revision. The stream ends with the test.
func openStream(ctx context.Context, s *Server, revision uint64) (*recorder, <-chan struct{}) {
	r := httptest.NewRequestWithContext(ctx, "GET", fmt.Sprintf("/api/events?since=%d", revision), nil)
	r.Header.Set("Authorization", "Bearer t")
	w, ended := newRecorder(), make(chan struct{})
	go func() {
		defer close(ended)
		s.Handler().ServeHTTP(w, r)
	}()
	return w, ended
}

// eventOf returns the nodes of an event with a change.
func eventOf(t *testing.T, text string) (uint64, []nodemap.Node) {
	t.Helper()
	data, isChange := strings.CutPrefix(text, "data: ")
	packed, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(data, "\n\n"))
	if err != nil || !isChange || strings.Count(data, "\n") != 2 {
		t.Fatalf("%q is no event with a single change", text)
	}
	return decode(t, packed)
}

// inBubble runs a test with a server whose reports are published.
func inBubble(t *testing.T, test func(t *testing.T, ctx context.Context, s *Server)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newServer(Options{}, nil)
		s.access = allowAll{}
		s.setReports(t, reportOf(t, "a"), reportOf(t, "b"))
		go s.reports.run(ctx)
		time.Sleep(publishInterval + time.Millisecond)
		synctest.Wait()
		test(t, ctx, s)
		cancel()
		synctest.Wait()
	})
}

// TestEvents: a browser receives only the changed nodes, within publishInterval, and a line at least every heartbeat.
func TestEvents(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, s *Server) {
		start := s.reports.revision
		w, _ := openStream(ctx, s, start)
		synctest.Wait()
		if text := w.take(); text != ":\n\n" || w.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%q, %v", text, w.header)
		}
		if err := errors.Join(s.reports.Add(reportOf(t, "b", 1500)), s.reports.Add(reportOf(t, "b", 2500))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(publishInterval)
		synctest.Wait()
		revision, nodes := eventOf(t, w.take())
		if revision != start+2 || len(nodes) != 1 || nodes[0].Name != "b" || nodes[0].Counts() != [4]int{1, 4, 1, 2} {
			t.Errorf("revision %d, want %d, %+v", revision, start+2, nodes)
		}
		if err := s.reports.Delete(reportOf(t, "a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(publishInterval)
		synctest.Wait()
		if _, nodes = eventOf(t, w.take()); len(nodes) != 1 || nodes[0].Name != "a" || nodes[0].State != nodemap.Removed {
			t.Errorf("%+v", nodes)
		}
		time.Sleep(heartbeat)
		synctest.Wait()
		if text := w.take(); text != ":\n\n" {
			t.Errorf("%q, want a line", text)
		}
		s.reports.setProblem(errors.New("connection refused\n<b>"))
		synctest.Wait()
		if text := w.take(); text != "event: problem\ndata: \"connection refused\\n\\u003cb\\u003e\"\n\n" {
			t.Errorf("%q, want the problem", text)
		}
		s.reports.setProblem(nil)
		synctest.Wait()
		if text := w.take(); text != "event: problem\ndata: \"\"\n\n" {
			t.Errorf("%q, want the end of the problem", text)
		}
	})
}

// TestLateBrowser: a browser with an older map receives all later changes at once. A browser whose map is of another server, or
// older than the known changes, reads the map again.
func TestLateBrowser(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, s *Server) {
		start := s.reports.revision
		for _, name := range []string{"c", "d"} {
			if err := s.reports.Add(reportOf(t, name)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(publishInterval)
		}
		synctest.Wait()
		w, _ := openStream(ctx, s, start)
		synctest.Wait()
		if _, nodes := eventOf(t, strings.TrimPrefix(w.take(), ":\n\n")); len(nodes) != 2 {
			t.Errorf("%+v, want c and d", nodes)
		}
		for i := range maxRemoved + 1 {
			name := fmt.Sprintf("n-%d", i)
			s.reports.mu.Lock()
			s.reports.nodes[name] = &report{}
			s.reports.remove(name)
			s.reports.mu.Unlock()
		}
		for _, revision := range []uint64{0, start, s.reports.revision + 1} {
			w, ended := openStream(ctx, s, revision)
			<-ended
			if text := w.take(); !strings.HasSuffix(text, "event: reset\ndata:\n\n") {
				t.Errorf("since %d: %q", revision, text)
			}
		}
	})
}

// TestSharedBatch: all browsers with the newest map receive the same bytes, so that a change costs the same with 1 and 100
// browsers.
func TestSharedBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, s *Server) {
		var all []*recorder
		for range 100 {
			w, _ := openStream(ctx, s, s.reports.revision)
			all = append(all, w)
		}
		synctest.Wait()
		if err := s.reports.Add(reportOf(t, "a", 2000)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(publishInterval)
		synctest.Wait()
		for i, w := range all {
			if _, nodes := eventOf(t, strings.TrimPrefix(w.take(), ":\n\n")); len(nodes) != 1 {
				t.Errorf("browser %d: %+v", i, nodes)
			}
		}
		if first, second := s.reports.after(s.reports.batch.from).batch, s.reports.after(s.reports.batch.from).batch; first != second {
			t.Error("a batch is packed twice")
		}
	})
}

// TestStreamEnds: the stream of a user who loses the rights ends within recheckInterval and heartbeat, and that of a browser that
// does not read ends at the next event.
func TestStreamEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, s *Server) {
		rights := &switchedAccess{}
		s.access = rights
		w, ended := openStream(ctx, s, s.reports.revision)
		time.Sleep(recheckInterval + heartbeat)
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("the stream of a user with the rights has ended")
		default:
		}
		rights.isDenied.Store(true)
		time.Sleep(recheckInterval + heartbeat)
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("the stream of a user without the rights goes on")
		}
		rights.isDenied.Store(false)
		w, ended = openStream(ctx, s, s.reports.revision)
		synctest.Wait()
		w.mu.Lock()
		w.err = errors.New("timeout")
		w.mu.Unlock()
		time.Sleep(heartbeat)
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("the stream of a browser that does not read goes on")
		}
		if n := len(s.streams); n != 0 {
			t.Errorf("%d streams are counted", n)
		}
	})
}

// A switchedAccess permits requests unless isDenied is set.
type switchedAccess struct{ isDenied atomic.Bool }

func (s *switchedAccess) check(context.Context, string, ...right) error {
	if s.isDenied.Load() {
		return errForbidden
	}
	return nil
}

func (*switchedAccess) login() string { return "token" }

// TestTooManyStreams: the server refuses browsers beyond maxStreams.
func TestTooManyStreams(t *testing.T) {
	s := newTestServer(t, nil, reportOf(t, "a"))
	for range maxStreams {
		s.streams <- struct{}{}
	}
	if w := s.request("GET", "/api/events?since=1", "", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestHeaders: all answers confine the page to files of this server. The page is not served under a name of another machine.
func TestHeaders(t *testing.T) {
	s := newTestServer(t, nil, reportOf(t, "a"))
	v, _ := newSessionAccess(func(string) {})
	s.sessionAccess, s.access = v, v
	for _, path := range []string{"/", "/page.js", "/page.css", "/icon.svg", "/healthz", "/api/map", "/none"} {
		w := s.request("GET", path, "", "")
		if got := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'self';") {
			t.Errorf("%s: Content-Security-Policy %q", path, got)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Referrer-Policy") != "no-referrer" || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
	for host, want := range map[string]int{"127.0.0.1:1": 200, "localhost:1": 200, "[::1]:1": 200, "[::1]": 200, "10.1.2.3": 200, "evil.example": 421, "localhost.evil.example:1": 421, "": 421} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
}

// TestPageHasNoInline: the policy refuses inline scripts and styles, so the page has none, and no address of another server.
func TestPageHasNoInline(t *testing.T) {
	s := newTestServer(t, nil)
	html := s.request("GET", "/", "", "").Body.String()
	script := s.request("GET", "/page.js", "", "")
	for _, bad := range []string{"<style", " style=", " onclick=", "<script>", "http:", "https:"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "setAttribute('style'"} {
		if strings.Contains(script.Body.String(), bad) {
			t.Errorf("the script has %q", bad)
		}
	}
	if lines := strings.Count(script.Body.String(), "\n"); lines > 500 {
		t.Errorf("the script has %d lines, more than 500", lines)
	}
	if kind := script.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/javascript") {
		t.Errorf("Content-Type %q", kind)
	}
}

// TestOneTimeToken: a one-time token starts a single session, whose token is needed for all data. A token in the URL or in a
// cookie gives no data.
func TestOneTimeToken(t *testing.T) {
	var announced []string
	s := newTestServer(t, nil, reportOf(t, "a"))
	v, oneTime := newSessionAccess(func(next string) { announced = append(announced, next) })
	s.sessionAccess, s.access = v, v
	if w := s.request("GET", "/api/map?token="+oneTime, "", ""); w.Code != 401 || answer[failure](t, w).Login != "address" || w.Header().Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("without a session: %d %s", w.Code, w.Body)
	}
	if w := s.request("GET", "/api/map", oneTime, ""); w.Code != 401 {
		t.Errorf("the one-time token as a session: %d", w.Code)
	}
	body := fmt.Sprintf(`{"token":%q}`, oneTime)
	w := s.request("POST", "/api/session", "", body)
	session := answer[struct{ Session string }](t, w).Session
	if w.Code != 200 || session == "" || len(announced) != 1 || announced[0] == oneTime {
		t.Fatalf("%d %s, announced %q", w.Code, w.Body, announced)
	}
	for _, path := range []string{"/api/map", "/api/info"} {
		if w := s.request("GET", path, session, ""); w.Code != 200 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, body := range []string{body, `{"token":""}`, `{}`} {
		if w := s.request("POST", "/api/session", "", body); w.Code != 401 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	for _, body := range []string{"token", `{"token":` + strings.Repeat(" ", 5000) + `"x"}`} {
		if w := s.request("POST", "/api/session", "", body); w.Code != 400 {
			t.Errorf("%.20s: %d %s", body, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest("GET", "/api/map", nil)
	r.Host = "127.0.0.1"
	r.AddCookie(&http.Cookie{Name: "candor-token", Value: session})
	cookie := httptest.NewRecorder()
	if s.Handler().ServeHTTP(cookie, r); cookie.Code != 401 {
		t.Errorf("a cookie: %d", cookie.Code)
	}
	if w := s.request("POST", "/api/session", "", fmt.Sprintf(`{"token":%q}`, announced[0])); w.Code != 200 {
		t.Errorf("the next token: %d %s", w.Code, w.Body)
	}
}

// TestBadRequests: invalid parameters have a single line, and no request reaches the API server. Other methods are refused.
func TestBadRequests(t *testing.T) {
	s := newTestServer(t, nil, reportOf(t, "a"))
	for _, c := range []struct {
		path, want string
		code       int
	}{
		{"/api/events", "since: must be the revision of a map", 400},
		{"/api/events?since=-1", "since: must be the revision of a map", 400},
		{"/api/node?name=../../api/v1/secrets", `name "../../api/v1/secrets": must be the name of an object`, 400},
		{"/api/node?name=" + strings.Repeat("a", 254), "must be the name of an object", 400},
		{"/api/node?name=b", "no node of that name has a report", 404},
		{"/api/pods?q=", "q: must have 1 to 317 bytes", 400},
		{"/api/pods?q=" + strings.Repeat("a", 318), "q: must have 1 to 317 bytes", 400},
		{"/api/pod?namespace=a%2fb&name=c", `namespace "a/b": must be the name of an object`, 400},
		{"/api/pod?namespace=a&name=", `name "": must be the name of an object`, 400},
		{"/api/pod?namespace=a&name=b", "no pod of that name", 404},
		{"/api/throttling", "no Prometheus is configured", 400},
	} {
		w := s.request("GET", c.path, "", "")
		if f := answer[failure](t, w); w.Code != c.code || !strings.Contains(f.Error, c.want) || strings.Contains(f.Error, "\n") {
			t.Errorf("%.60s: %d %q, want %d %q", c.path, w.Code, f.Error, c.code, c.want)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		if w := s.request(method, "/api/map", "", ""); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	if w := s.request("POST", "/api/session", "", "{}"); w.Code != 400 {
		t.Errorf("a session in a cluster: %d %s", w.Code, w.Body)
	}
}

// TestThrottling: the share of a node is read once for all browsers. An answer that is none of Prometheus is an error.
func TestThrottling(t *testing.T) {
	calls, text := 0, `{"status":"success","data":{"result":[{"metric":{"instance":"a"},"value":[1,"0.25"]},{"metric":{"instance":"b"},"value":[1,"NaN"]},{"metric":{"instance":"c"},"value":[1]}]}}`
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		if r.URL.Path != "/at/api/v1/query" || r.FormValue("query") != throttledQuery {
			t.Errorf("%s", r.URL)
		}
		_, _ = io.WriteString(w, text)
	}))
	defer prometheus.Close()
	s := newTestServer(t, nil, reportOf(t, "a"))
	at, err := url.Parse(prometheus.URL + "/at")
	if err != nil {
		t.Fatal(err)
	}
	s.options.Prometheus, s.throttling.address = at, at
	for range 2 {
		w := s.request("GET", "/api/throttling", "", "")
		if got := answer[struct{ Nodes map[string]float64 }](t, w).Nodes; w.Code != 200 || len(got) != 1 || got["a"] != .25 {
			t.Errorf("%d %v", w.Code, got)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls of Prometheus, want 1", calls)
	}
	for _, bad := range []string{"<html>", `{"status":"error","error":"bad query"}`} {
		s.throttling.shares, text = nil, bad
		w := s.request("GET", "/api/throttling", "", "")
		if f := answer[failure](t, w); w.Code != http.StatusBadGateway || !strings.HasPrefix(f.Error, "Prometheus http://127.0.0.1") {
			t.Errorf("%s: %d %q", bad, w.Code, f.Error)
		}
	}
}

// TestInfo: the page learns the name of the cluster and the clock of the server.
func TestInfo(t *testing.T) {
	s := newTestServer(t, nil)
	i := answer[info](t, s.request("GET", "/api/info", "", ""))
	if i.Cluster != "test" || i.Throttling || i.Now == 0 {
		t.Errorf("%+v", i)
	}
	if text, err := json.Marshal(i); err != nil || !strings.Contains(string(text), `"throttling":false`) {
		t.Errorf("%v, %s", err, text)
	}
}
