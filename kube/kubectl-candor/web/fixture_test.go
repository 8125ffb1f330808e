package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/apitest"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/nodemap"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

type object = map[string]any

// reportOf returns the NodeCPU of a node of 8 CPUs, CPU 0 of which is reserved. Sensitive containers have the given limits and
// the pods NAME-0, NAME-1 and so on.
func reportOf(t testing.TB, name string, limits ...hybrid.Milli) *v1alpha1.NodeCPU {
	t.Helper()
	return reportOn(t, "core:8", cpuset.Of(0), name, limits...)
}

// reportOn returns the NodeCPU of a node with a machine.
func reportOn(t testing.TB, description string, reserved cpuset.Set, name string, limits ...hybrid.Milli) *v1alpha1.NodeCPU {
	t.Helper()
	machine, err := topology.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	n, err := hybrid.NewNode(machine, hybrid.Options{Reserved: reserved})
	if err != nil {
		t.Fatal(err)
	}
	for i, limit := range limits {
		r := hybrid.Request{ID: fmt.Sprintf("%s-%d/app", name, i), Class: hybrid.Sensitive, Limit: limit}
		if _, _, err := n.Place(&r); err != nil {
			t.Fatal(err)
		}
	}
	report := &v1alpha1.NodeCPU{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Status: nodecpu.Status(n, nodecpu.HolderOf)}
	report.Status.Counter, report.Status.Reported = 1, metav1.NewTime(time.Now().Add(-time.Minute))
	return report
}

// podOn returns a pod as the API server lists it. node is "" for a pod that waits.
func podOn(namespace, name, uid, node string) object {
	return object{
		"metadata": object{"namespace": namespace, "name": name, "uid": uid},
		"spec":     object{"nodeName": node, "containers": []object{{"name": "app"}}},
		"status":   object{"phase": "Running"},
	}
}

// newTestServer returns a server with reports. Its API server has the objects at their paths.
func newTestServer(t testing.TB, objects map[string]any, reports ...*v1alpha1.NodeCPU) *Server {
	t.Helper()
	api := apitest.Objects(t, objects)
	client, err := restClient(configOf(api))
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(Options{Cluster: "test"}, &reader{client})
	s.access = allowAll{}
	s.setReports(t, reports...)
	return s
}

// configOf returns the access to a server of package apitest.
func configOf(s *httptest.Server) *rest.Config {
	return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: apitest.Authority(s)}}
}

// setReports replaces all reports.
func (s *Server) setReports(t testing.TB, reports ...*v1alpha1.NodeCPU) {
	t.Helper()
	var all []any
	for _, r := range reports {
		all = append(all, r)
	}
	if err := s.reports.Replace(all, ""); err != nil {
		t.Fatal(err)
	}
}

// request sends a request to a server, and returns the answer.
func (s *Server) request(method, path, token, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// answer decodes the JSON of an answer.
func answer[T any](t *testing.T, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v in %d %s", err, w.Code, w.Body)
	}
	return v
}

var emptySet cpuset.Set

// allowReports is an access for users who can only list reports.
type allowReports struct{}

func (allowReports) check(_ context.Context, _ string, rights ...right) error {
	for _, wanted := range rights {
		if wanted != listReports {
			return errForbidden
		}
	}
	return nil
}

func (allowReports) login() string { return "token" }

// allowAll is an access that permits all requests.
type allowAll struct{}

func (allowAll) check(_ context.Context, _ string, _ ...right) error { return nil }
func (allowAll) login() string                                       { return "token" }

// A listWatch plays the API server's list and watch of the NodeCPUs, and counts the requests.
type listWatch struct {
	*httptest.Server

	mu       sync.Mutex
	reports  []*v1alpha1.NodeCPU
	requests []string // "list" or "watch"
	refusal  string   // reason of a Status that answers all requests; ""
	changes  chan *v1alpha1.NodeCPU
}

// newListWatch starts a server with reports. It answers further paths with objects.
func newListWatch(t testing.TB, objects map[string]any, reports ...*v1alpha1.NodeCPU) *listWatch {
	l := &listWatch{reports: reports, changes: make(chan *v1alpha1.NodeCPU, 100)}
	ended := make(chan struct{})
	l.Server = apitest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		found, isObject := objects[r.URL.Path]
		if r.URL.Path == "/apis/candor.dev/v1alpha1/nodecpus" {
			l.serve(w, r.URL.Query(), ended)
			return
		}
		if !isObject {
			w.WriteHeader(http.StatusNotFound)
			found = object{"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": r.URL.Path + " not found"}
		}
		_ = json.NewEncoder(w).Encode(found) // the test fails if the answer is missing
	})
	t.Cleanup(func() { close(ended) }) // before the server is closed, which waits for the watches
	return l
}

func (l *listWatch) serve(w http.ResponseWriter, query url.Values, ended <-chan struct{}) {
	kind := "list"
	if query.Get("watch") != "" {
		kind = "watch"
	}
	l.mu.Lock()
	l.requests = append(l.requests, kind)
	refusal, reports := l.refusal, l.reports
	l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if refusal != "" {
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": refusal, "code": 403, "message": "nodecpus is forbidden"})
		return
	}
	if kind == "list" {
		items := []*v1alpha1.NodeCPU{}
		_ = json.NewEncoder(w).Encode(object{"kind": "NodeCPUList", "apiVersion": "candor.dev/v1alpha1", "metadata": object{"resourceVersion": "1"}, "items": append(items, withKinds(reports)...)})
		return
	}
	send := func(kind string, value any) {
		_ = json.NewEncoder(w).Encode(object{"type": kind, "object": value})
		w.(http.Flusher).Flush()
	}
	if query.Get("sendInitialEvents") == "true" {
		for _, r := range withKinds(reports) {
			send("ADDED", r)
		}
		end := withKinds([]*v1alpha1.NodeCPU{{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Annotations: map[string]string{"k8s.io/initial-events-end": "true"}}}})
		send("BOOKMARK", end[0])
	}
	for {
		select {
		case <-ended:
			return
		case r := <-l.changes:
			send("MODIFIED", withKinds([]*v1alpha1.NodeCPU{r})[0])
		}
	}
}

// withKinds returns copies with kind and version, as the API server has them.
func withKinds(reports []*v1alpha1.NodeCPU) (all []*v1alpha1.NodeCPU) {
	for _, r := range reports {
		with := *r
		with.Kind, with.APIVersion = "NodeCPU", v1alpha1.GroupVersion.String()
		all = append(all, &with)
	}
	return all
}

// decode decodes a packed map.
func decode(t *testing.T, data []byte) (uint64, []nodemap.Node) {
	t.Helper()
	revision, nodes, err := nodemap.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return revision, nodes
}

// A recorder is a ResponseWriter for streams.
type recorder struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	header http.Header
	err    error // of the next writes
}

func newRecorder() *recorder { return &recorder{header: http.Header{}} }

func (r *recorder) Header() http.Header              { return r.header }
func (r *recorder) WriteHeader(int)                  {}
func (r *recorder) FlushError() error                { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }
func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return 0, r.err
	}
	return r.buf.Write(p)
}

// take returns the text since the last call.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.buf.Reset()
	return r.buf.String()
}

// readAll reads and closes the body of an answer.
func readAll(t *testing.T, r *http.Response) []byte {
	t.Helper()
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// decodeBody decodes the JSON of an answer.
func decodeBody[T any](t *testing.T, r *http.Response) (v T) {
	t.Helper()
	if err := json.Unmarshal(readAll(t, r), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
