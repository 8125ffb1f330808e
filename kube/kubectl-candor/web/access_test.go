package web

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/candor-project/candor/internal/apitest"
)

// TestReviews: a token is reviewed for each right, and a result serves the requests of reviewAge. An error of the API server is
// not remembered.
func TestReviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newReviewer(nil)
		reviews, failure := 0, error(nil)
		v.review = func(_ context.Context, token string) (*authenticationv1.UserInfo, error) {
			reviews++
			if token != "good" || failure != nil {
				return nil, failure
			}
			return &authenticationv1.UserInfo{Username: "ann"}, nil
		}
		v.allow = func(_ context.Context, _ *authenticationv1.UserInfo, wanted right) (bool, error) {
			return wanted == listReports, nil
		}
		check := func(token string, rights ...right) error { return v.check(t.Context(), token, rights...) }
		for range 3 {
			if err := check("good", listReports); err != nil {
				t.Error(err)
			}
		}
		if reviews != 1 {
			t.Errorf("%d reviews of 3 requests, want 1", reviews)
		}
		if err := check("good", listReports, listPods); !errors.Is(err, errForbidden) || !strings.Contains(err.Error(), `user "ann" cannot list pods`) {
			t.Errorf("%v, want errForbidden", err)
		}
		for _, token := range []string{"", "bad"} {
			if err := check(token, listReports); !errors.Is(err, errLogin) {
				t.Errorf("token %q: %v, want errLogin", token, err)
			}
		}
		time.Sleep(reviewAge)
		failure = errors.New("timeout")
		if err := check("good", listReports); !errors.Is(err, failure) {
			t.Errorf("after reviewAge: %v, want the API server's error", err)
		}
		failure = nil
		if err := check("good", listReports); err != nil {
			t.Errorf("after an error: %v", err)
		}
	})
}

// TestManyTokens: invalid tokens take bounded memory, and at most maxReviews reviews run at the same time.
func TestManyTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newReviewer(nil)
		var running, maxRunning atomic.Int32
		v.review = func(context.Context, string) (*authenticationv1.UserInfo, error) {
			maxRunning.Store(max(maxRunning.Load(), running.Add(1)))
			time.Sleep(time.Millisecond)
			running.Add(-1)
			return nil, nil
		}
		for i := range maxResults + 10 {
			v.remember(reviewKey{wanted: right{resource: string(rune(i))}}, reviewResult{at: time.Now()})
		}
		if n := len(v.results); n > maxResults {
			t.Errorf("%d results, want at most %d", n, maxResults)
		}
		for i := range 100 {
			go func() { _ = v.check(t.Context(), strings.Repeat("x", i+1), listReports) }()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if maxRunning.Load() > maxReviews {
			t.Errorf("%d reviews at the same time, want at most %d", maxRunning.Load(), maxReviews)
		}
	})
}

// TestReviewCalls: the API server receives the token, then the user with its groups and the right.
func TestReviewCalls(t *testing.T) {
	api := apitest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			var review authenticationv1.TokenReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				t.Error(err)
			}
			review.Status.Authenticated = review.Spec.Token == "good"
			review.Status.User = authenticationv1.UserInfo{Username: "ann", Groups: []string{"dev"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
			_ = json.NewEncoder(w).Encode(review)
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			var review authorizationv1.SubjectAccessReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				t.Error(err)
			}
			s := review.Spec
			if s.User != "ann" || len(s.Groups) != 1 || s.Groups[0] != "dev" || s.Extra["k"][0] != "v" || s.ResourceAttributes.Verb != "list" || s.ResourceAttributes.Namespace != "" {
				t.Errorf("%+v", s)
			}
			review.Status.Allowed = *s.ResourceAttributes == authorizationv1.ResourceAttributes{Verb: "list", Group: "candor.dev", Resource: "nodecpus"}
			_ = json.NewEncoder(w).Encode(review)
		default:
			t.Errorf("%s", r.URL)
		}
	})
	config := configOf(api)
	config.ContentType = "application/json"
	v := newReviewer(kubernetes.NewForConfigOrDie(config))
	for _, c := range []struct {
		token  string
		wanted right
		want   error
	}{{"good", listReports, nil}, {"good", listPods, errForbidden}, {"bad", listReports, errLogin}} {
		if err := v.check(t.Context(), c.token, c.wanted); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestBearer: only the header Authorization has a token.
func TestBearer(t *testing.T) {
	for header, want := range map[string]string{
		"": "", "Bearer": "", "Bearer abc": "abc", "bearer abc ": "abc", "Basic abc": "", "Bearer " + strings.Repeat("x", maxToken+1): "",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", header)
		if got := bearer(r); got != want {
			t.Errorf("%.20q: %.20q, want %q", header, got, want)
		}
	}
}

// TestFailedReview: a client receives no text of an API server that does not answer. The log has the text.
func TestFailedReview(t *testing.T) {
	var logged strings.Builder
	s := newTestServer(t, nil, reportOf(t, "a"))
	s.errors = log.New(&logged, "", 0)
	s.access = failingAccess{errors.New("TokenReview: dial tcp 10.0.0.1:443: connection refused")}
	w := s.request("GET", "/api/map", "t", "")
	if f := answer[failure](t, w); w.Code != http.StatusBadGateway || f.Error != errNoReview.Error() || !strings.Contains(logged.String(), "10.0.0.1") {
		t.Errorf("%d, %+v, log %q", w.Code, f, &logged)
	}
	s.access = failingAccess{errBusy}
	if w := s.request("GET", "/api/map", "t", ""); w.Code != http.StatusServiceUnavailable || answer[failure](t, w).Error != errBusy.Error() {
		t.Errorf("%d, %s", w.Code, w.Body)
	}
}

// A failingAccess is an access whose checks fail with an error.
type failingAccess struct{ err error }

func (a failingAccess) check(context.Context, string, ...right) error { return a.err }
func (failingAccess) login() string                                   { return "token" }

// TestRightsOfData: each path needs the right to list reports; the paths with names of pods need more rights.
func TestRightsOfData(t *testing.T) {
	s := newTestServer(t, nil, reportOf(t, "a"))
	recorded := &rightsAsked{}
	s.access = recorded
	for path, want := range map[string]string{
		"/api/info": "nodecpus", "/api/map": "nodecpus", "/api/events": "nodecpus", "/api/throttling": "nodecpus", "/api/node?name=a": "nodecpus",
		"/api/pods?q=a": "nodecpus pods", "/api/pod?namespace=a&name=b": "nodecpus pods nodes",
	} {
		recorded.first = nil
		s.request("GET", path, "t", "")
		if got := strings.Join(recorded.first, " "); got != want {
			t.Errorf("%s: asks for %q, want %q", path, got, want)
		}
	}
}

// rightsAsked is an access that permits all requests and records the rights of the first check.
type rightsAsked struct{ first []string }

func (a *rightsAsked) check(_ context.Context, _ string, rights ...right) error {
	if a.first != nil {
		return nil
	}
	for _, wanted := range rights {
		a.first = append(a.first, wanted.resource)
	}
	return nil
}

func (*rightsAsked) login() string { return "token" }
