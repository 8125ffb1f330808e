package events

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/candor-project/candor/internal/apitest"
	"github.com/candor-project/candor/kube/apiserver"
)

// TestRequests: the requests of the client have the paths, types and bodies that the API of Events requires.
func TestRequests(t *testing.T) {
	var method, path, contentType string
	var body map[string]any
	code := http.StatusCreated
	s := apitest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		method, path, contentType = r.Method, r.URL.Path, r.Header.Get("Content-Type")
		body = nil
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		w.WriteHeader(code)
		if code == http.StatusConflict {
			fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"AlreadyExists","code":409}`)
			return
		}
		fmt.Fprint(w, `{}`)
	})
	file := apitest.Write(t, t.TempDir(), "kubeconfig", apitest.Kubeconfig(s.URL, apitest.Trust(s), "token: x"))
	k, err := apiserver.New(apiserver.Options{Kubeconfig: file, Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{k, "node-1"}
	at := time.Unix(1_800_000_000, 123_456_000).UTC()
	b := newBacklog(at)
	b.add(podKey(1, CPUsRefused), "candor: no capacity", at)
	event, _ := b.next(at)
	d := b.draft(event)
	name, err := c.create(t.Context(), d)
	want := map[string]any{
		"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": map[string]any{"name": name, "namespace": "default"},
		"eventTime": "2027-01-15T08:00:00.123456Z", "reportingController": "candor.dev/nri", "reportingInstance": "node-1",
		"action": "Allocate", "reason": "CPUsRefused", "note": "candor: no capacity", "type": "Warning",
		"regarding": map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "pod-1", "uid": "uid-1"},
	}
	if err != nil || method != "POST" || path != "/apis/events.k8s.io/v1/namespaces/default/events" || contentType != "application/json" || !reflect.DeepEqual(body, want) {
		t.Errorf("%v: %s %s %s\n%v\nwant\n%v", err, method, path, contentType, body, want)
	}
	b.done(d, name, at)
	b.add(podKey(1, CPUsRefused), "candor: no capacity", at.Add(time.Second))
	code = http.StatusOK
	event, _ = b.next(at.Add(interval))
	err = c.update(t.Context(), b.draft(event))
	want = map[string]any{"series": map[string]any{"count": 2.0, "lastObservedTime": "2027-01-15T08:00:01.123456Z"}}
	if err != nil || method != "PATCH" || path != "/apis/events.k8s.io/v1/namespaces/default/events/"+name || contentType != "application/merge-patch+json" || !reflect.DeepEqual(body, want) {
		t.Errorf("%v: %s %s %s\n%v\nwant\n%v", err, method, path, contentType, body, want)
	}

	// Two occurrences before the first write are a series. An Event that exists already is the result of a lost response.
	b = newBacklog(at)
	b.add(key{reason: CandorNotConnected}, "a", at)
	b.add(key{reason: CandorNotConnected}, "a", at)
	event, _ = b.next(at)
	code = http.StatusConflict
	name, err = c.create(t.Context(), b.draft(event))
	want = map[string]any{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "node-1"}
	series, _ := body["series"].(map[string]any)
	if err != nil || !strings.HasPrefix(name, "node-1.") || !reflect.DeepEqual(body["regarding"], want) || series["count"] != 2.0 {
		t.Errorf("%s, %v: got %v", name, err, body)
	}
}

// TestNameOf: the name of an Event is valid for each name of a pod or node.
func TestNameOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,3}`).Draw(t, "object")
		name := nameOf(object, rapid.Int64Range(1, 1<<62).Draw(t, "number"))
		if wrong := validation.IsDNS1123Subdomain(name); wrong != nil {
			t.Fatalf("%s: %v", name, wrong)
		}
	})
	if wrong := validation.IsDNS1123Subdomain(nameOf(strings.Repeat("a", 235)+"-.b", 1<<62)); wrong != nil {
		t.Error(wrong)
	}
}

// FuzzClean: a note is a line of printable characters within the limit of the API server. A short printable note is unchanged.
func FuzzClean(f *testing.F) {
	for _, note := range []string{"no capacity", "a\nb\x1b[2J", "\xff\xfe", strings.Repeat("ä", 600), strings.Repeat("a", 1024), "\u202e"} {
		f.Add(note)
	}
	f.Fuzz(func(t *testing.T, note string) {
		got := clean(note)
		if len(got) > maxNote || !utf8.ValidString(got) || strings.ContainsFunc(got, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("%q: got %q", note, got)
		}
		isPrintable := utf8.ValidString(note) && !strings.ContainsFunc(note, func(c rune) bool { return !unicode.IsPrint(c) })
		if isPrintable && len(note) <= maxNote && got != note {
			t.Errorf("%q: got %q", note, got)
		}
	})
}

// TestReasons: the API server accepts each reason, and the reasons are distinct.
func TestReasons(t *testing.T) {
	seen := map[Reason]bool{}
	for _, r := range Reasons() {
		if seen[r] || r.action() == "" || r.eventType() != "Normal" && r.eventType() != "Warning" || len(r) > 128 {
			t.Errorf("reason %s: action %q, type %q", r, r.action(), r.eventType())
		}
		seen[r] = true
	}
}
