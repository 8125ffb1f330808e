package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/candor-project/candor/kube/nodemap"
	"github.com/candor-project/candor/kube/v1alpha1"
)

const (
	publishInterval = 250 * time.Millisecond // minimum time between two batches of changes
	maxRemoved      = 10_000                 // removed nodes whose names are retained for browsers that missed the removal
)

// A reports holds the reports of all nodes as packed records. It is the store of a cache.Reflector, and safe for concurrent use.
//
// Each change has a revision. A browser that has a map of revision r reads the records with a higher revision. Revisions begin
// with the time of the start in milliseconds, so that a restarted server knows that a browser has the map of an earlier server.
type reports struct {
	mu       sync.Mutex
	nodes    map[string]*report
	removed  map[string]uint64 // revision of the removal, by name
	revision uint64
	floor    uint64 // changes up to this revision are not known; a browser with an older map reads the map again
	isSynced bool
	synced   chan struct{} // closed when the first list is complete
	problem  string        // error of the API server since the last success; ""

	published uint64        // revision of the last batch
	batch     *batch        // last batch of changes
	signal    chan struct{} // closed when a batch or a problem is new

	packed         []byte // gzip of the map of all nodes
	packedRevision uint64
}

// A report is the report of a node. It is a metav1.Object, as the reflector's own stores require.
type report struct {
	metav1.ObjectMeta        // name and version only
	status            []byte // v1alpha1.NodeCPUStatus in JSON: a tenth of the memory of the object
	record            []byte // packed; nil if the name fits into no record
	revision          uint64
}

// A batch has the changes after revision from, up to revision to.
type batch struct {
	from, to uint64
	data     []byte // packed map of the changed nodes
}

func newReports() *reports {
	start := uint64(time.Now().UnixMilli())
	return &reports{
		nodes: map[string]*report{}, removed: map[string]uint64{}, revision: start, floor: start, published: start,
		synced: make(chan struct{}), signal: make(chan struct{}),
	}
}

// asReport packs a NodeCPU. Other objects are an error.
func asReport(object any) (any, error) {
	if r, ok := object.(*report); ok {
		return r, nil
	}
	n, ok := object.(*v1alpha1.NodeCPU)
	if !ok {
		return nil, fmt.Errorf("%T: must be a NodeCPU", object)
	}
	r := &report{ObjectMeta: metav1.ObjectMeta{Name: n.Name, ResourceVersion: n.ResourceVersion}}
	var err error
	if r.status, err = json.Marshal(&n.Status); err != nil {
		return nil, err
	}
	packed, _ := nodemap.Of(n.Name, &n.Status) // the error is shown when the node is opened
	if r.record, err = nodemap.AppendRecord(nil, &packed); err != nil {
		r.record = nil
	}
	return r, nil
}

// Transformer makes the reflector pack the objects of its first list one by one.
func (s *reports) Transformer() cache.TransformFunc { return asReport }

// Add, Update, Delete, Replace and Resync are the methods of a cache.ReflectorStore.

func (s *reports) Add(object any) error {
	packed, err := asReport(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(packed.(*report))
	s.solved()
	return nil
}

func (s *reports) Update(object any) error { return s.Add(object) }

func (s *reports) Delete(object any) error {
	packed, err := asReport(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(packed.(*report).Name)
	return nil
}

func (s *reports) Replace(objects []any, _ string) error {
	all := make(map[string]*report, len(objects))
	for _, object := range objects {
		packed, err := asReport(object)
		if err != nil {
			return err
		}
		all[packed.(*report).Name] = packed.(*report)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.nodes {
		if all[name] == nil {
			s.remove(name)
		}
	}
	for _, r := range all {
		s.set(r)
	}
	s.solved()
	if !s.isSynced {
		s.isSynced = true
		close(s.synced)
	}
	return nil
}

func (s *reports) Resync() error { return nil }

// set stores a report. The caller holds s.mu.
func (s *reports) set(r *report) {
	old := s.nodes[r.Name]
	if old != nil && bytes.Equal(old.status, r.status) {
		return // the list after a lost connection repeats all reports
	}
	s.revision++
	r.revision = s.revision
	s.nodes[r.Name] = r
	delete(s.removed, r.Name)
}

// remove deletes a report. The caller holds s.mu.
func (s *reports) remove(name string) {
	if s.nodes[name] == nil {
		return
	}
	delete(s.nodes, name)
	s.revision++
	s.removed[name] = s.revision
	if len(s.removed) > maxRemoved {
		s.floor = s.revision
		clear(s.removed)
	}
}

// setProblem stores an error of the API server; nil clears it.
func (s *reports) setProblem(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if s.problem != text {
		s.problem = text
		s.notify()
	}
}

// solved clears the error of the API server. The caller holds s.mu.
func (s *reports) solved() {
	if s.problem != "" {
		s.problem = ""
		s.notify()
	}
}

// notify wakes the streams. The caller holds s.mu.
func (s *reports) notify() {
	close(s.signal)
	s.signal = make(chan struct{})
}

// run publishes the changes in batches until ctx is done. All browsers with the newest map receive the same bytes.
func (s *reports) run(ctx context.Context) {
	tick := time.NewTicker(publishInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.publish()
		}
	}
}

// publish makes a batch of the changes since the last batch, if there are any.
func (s *reports) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.published == s.revision || !s.isSynced {
		return
	}
	s.batch = s.since(s.published)
	s.published = s.revision
	s.notify()
}

// since returns the changes after a revision. The caller holds s.mu.
func (s *reports) since(from uint64) *batch {
	if s.batch != nil && s.batch.from == from && s.batch.to == s.revision {
		return s.batch
	}
	var records []byte
	n := 0
	for _, r := range s.nodes {
		if r.revision > from && r.record != nil {
			records, n = append(records, r.record...), n+1
		}
	}
	for name, revision := range s.removed {
		if revision <= from {
			continue
		}
		if removed, err := nodemap.AppendRecord(records, &nodemap.Node{Name: name, State: nodemap.Removed}); err == nil {
			records, n = removed, n+1
		}
	}
	return &batch{from, s.revision, append(nodemap.Header(s.revision, n), records...)}
}

// A change is an event for a browser.
type change struct {
	batch   *batch // nil: no change
	isStale bool   // the browser's map is too old: it must read the map again
	problem string
	signal  <-chan struct{} // closed at the next change
}

// after returns the changes after a revision that a browser has.
func (s *reports) after(revision uint64) change {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := change{problem: s.problem, signal: s.signal}
	switch {
	case revision < s.floor || revision > s.revision:
		c.isStale = true
	case revision >= s.published: // later changes are in the next batch
	case s.batch != nil && s.batch.from == revision && s.batch.to == s.published:
		c.batch = s.batch
	default:
		c.batch = s.since(revision)
	}
	return c
}

// all returns the packed map of all nodes, compressed by gzip. It waits for the first list of the reports.
func (s *reports) all(ctx context.Context) ([]byte, error) {
	select {
	case <-s.synced:
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.problem != "" {
			return nil, errors.New(s.problem)
		}
		return nil, errors.New("the API server has not sent the reports yet")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.packed != nil && s.packedRevision == s.revision {
		return s.packed, nil
	}
	nodes := slices.SortedFunc(maps.Values(s.nodes), func(a, b *report) int { return cmp.Compare(a.Name, b.Name) })
	nodes = slices.DeleteFunc(nodes, func(r *report) bool { return r.record == nil })
	var out bytes.Buffer
	to, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	_, err = to.Write(nodemap.Header(s.revision, len(nodes)))
	for _, r := range nodes {
		if err == nil {
			_, err = to.Write(r.record)
		}
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return nil, err
	}
	s.packed, s.packedRevision = out.Bytes(), s.revision
	return s.packed, nil
}

// get returns the report of a node, or nil if there is none.
func (s *reports) get(name string) (*v1alpha1.NodeCPUStatus, error) {
	s.mu.Lock()
	r := s.nodes[name]
	s.mu.Unlock()
	if r == nil {
		return nil, nil
	}
	status := &v1alpha1.NodeCPUStatus{}
	return status, json.Unmarshal(r.status, status)
}

// watch keeps the reports current until ctx is done. It sends one list and one watch, with any number of browsers.
func (s *reports) watch(ctx context.Context, config *rest.Config) error {
	client, err := restClient(config)
	if err != nil {
		return err
	}
	reader := cache.NewFilteredListWatchFromClient(client, v1alpha1.NodeCPUs, "", func(*metav1.ListOptions) {})
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := reader.ListWithContext(ctx, o)
			s.setProblem(watchProblem(err))
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := reader.WatchWithContext(ctx, o)
			s.setProblem(watchProblem(err))
			return w, err
		},
	}
	go s.run(ctx)
	cache.NewReflectorWithOptions(listWatch, &v1alpha1.NodeCPU{}, s, cache.ReflectorOptions{Name: "nodecpus"}).RunWithContext(ctx)
	return nil
}
