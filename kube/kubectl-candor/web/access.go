package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/candor-project/candor/kube/v1alpha1"
)

// A right is a resource that the user of a request must be allowed to list in all namespaces.
type right struct {
	group, resource string
}

var (
	listReports = right{v1alpha1.GroupVersion.Group, v1alpha1.NodeCPUs}
	listPods    = right{"", "pods"}
	listNodes   = right{"", "nodes"}
)

// An access decides about requests for data. It is safe for concurrent use.
type access interface {
	// check returns nil if the user with the token of a request has the rights. Otherwise the error wraps errLogin or
	// errForbidden, or is the error of the API server.
	check(ctx context.Context, token string, rights ...right) error
	// login explains how a user gets a token: "address" or "token".
	login() string
}

var (
	errLogin     = errors.New("no valid token")
	errForbidden = errors.New("forbidden")
)

// bearer returns the token of a request, or "".
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(token) > maxToken {
		return ""
	}
	return strings.TrimSpace(token)
}

// maxToken bounds a token, in bytes. Tokens of identity providers have up to 8 KiB.
const maxToken = 16 << 10

// A sessionAccess is the access for a single user, on the user's own machine. An address with a one-time token starts a session, whose
// token the page retains in the memory of its tab. The rights are those of the user at the API server.
type sessionAccess struct {
	// announce prints the address for the next session. It is called once for each session that starts.
	announce func(oneTime string)

	mu       sync.Mutex
	oneTime  string
	sessions map[string]bool
}

// maxSessions bounds the sessions, each of which is a tab of a browser.
const maxSessions = 1000

// newSessionAccess returns the access, and the first one-time token.
func newSessionAccess(announce func(oneTime string)) (*sessionAccess, string) {
	v := &sessionAccess{announce: announce, oneTime: rand.Text(), sessions: map[string]bool{}}
	return v, v.oneTime
}

// start exchanges the one-time token for the token of a session. The one-time token is then invalid, and announce receives the
// next.
func (v *sessionAccess) start(oneTime string) (session string, err error) {
	session, next, err := v.exchange(oneTime)
	if err == nil {
		v.announce(next) // without the lock: a terminal can block
	}
	return session, err
}

// exchange replaces the one-time token, and returns the token of a session and the next one-time token.
func (v *sessionAccess) exchange(oneTime string) (session, next string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if subtle.ConstantTimeCompare([]byte(oneTime), []byte(v.oneTime)) != 1 {
		return "", "", errLogin
	}
	if len(v.sessions) >= maxSessions {
		return "", "", fmt.Errorf("%d sessions: end kubectl candor web and start it again", maxSessions)
	}
	session, v.oneTime = rand.Text(), rand.Text()
	v.sessions[session] = true
	return session, v.oneTime, nil
}

func (v *sessionAccess) check(_ context.Context, token string, _ ...right) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.sessions[token] { // the tokens are random, so a comparison in constant time is not needed
		return errLogin
	}
	return nil
}

func (*sessionAccess) login() string { return "address" }

// A reviewer is the access in a cluster: the API server reviews the token and the rights of each request. It remembers a result
// for reviewAge, so that the requests of a page that opens cause a single review.
type reviewer struct {
	// review returns the user of a token, or nil if the token is invalid.
	review func(ctx context.Context, token string) (*authenticationv1.UserInfo, error)
	// allow reports whether a user has a right.
	allow func(ctx context.Context, user *authenticationv1.UserInfo, wanted right) (bool, error)

	slots   chan struct{} // bounds the reviews at the same time, since clients can send any number of invalid tokens
	mu      sync.Mutex
	results map[reviewKey]reviewResult
}

const (
	maxReviews    = 16
	reviewAge     = 10 * time.Second
	reviewTimeout = 10 * time.Second
	maxResults    = 10_000
)

type reviewKey struct {
	token  [sha256.Size]byte // hash of the token
	wanted right
}

type reviewResult struct {
	err error // nil, errLogin or errForbidden
	at  time.Time
}

// newReviewer returns an access that reviews tokens and rights at the API server.
func newReviewer(client kubernetes.Interface) *reviewer {
	return &reviewer{
		slots:   make(chan struct{}, maxReviews),
		results: map[reviewKey]reviewResult{},
		review: func(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
			r, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
			if err != nil || !r.Status.Authenticated {
				return nil, err
			}
			return &r.Status.User, nil
		},
		allow: func(ctx context.Context, user *authenticationv1.UserInfo, wanted right) (bool, error) {
			extra := map[string]authorizationv1.ExtraValue{}
			for key, values := range user.Extra {
				extra[key] = authorizationv1.ExtraValue(values)
			}
			r, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: wanted.group, Resource: wanted.resource},
			}}, metav1.CreateOptions{})
			return err == nil && r.Status.Allowed && !r.Status.Denied, err
		},
	}
}

func (v *reviewer) check(ctx context.Context, token string, rights ...right) error {
	if token == "" {
		return errLogin
	}
	hash := sha256.Sum256([]byte(token))
	for _, wanted := range rights {
		key := reviewKey{hash, wanted}
		v.mu.Lock()
		known, isKnown := v.results[key]
		v.mu.Unlock()
		if !isKnown || time.Since(known.at) >= reviewAge {
			err := v.ask(ctx, token, wanted)
			if err != nil && !errors.Is(err, errLogin) && !errors.Is(err, errForbidden) {
				return err // the API server did not answer: the next request asks again
			}
			known = reviewResult{err, time.Now()}
			v.remember(key, known)
		}
		if known.err != nil {
			return known.err
		}
	}
	return nil
}

// ask asks the API server for a right of the user of a token.
func (v *reviewer) ask(ctx context.Context, token string, wanted right) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
		return errBusy
	}
	user, err := v.review(ctx, token)
	switch {
	case err != nil:
		return fmt.Errorf("TokenReview: %w", err)
	case user == nil:
		return errLogin
	}
	isAllowed, err := v.allow(ctx, user, wanted)
	switch {
	case err != nil:
		return fmt.Errorf("SubjectAccessReview: %w", err)
	case !isAllowed:
		return fmt.Errorf("%w: user %.200q cannot list %s; the ClusterRole candor-view has this right", errForbidden, user.Username, wanted.resource)
	}
	return nil
}

// remember stores a result, and forgets old results.
func (v *reviewer) remember(key reviewKey, result reviewResult) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.results) >= maxResults {
		for k, r := range v.results {
			if time.Since(r.at) >= reviewAge {
				delete(v.results, k)
			}
		}
		if len(v.results) >= maxResults { // many tokens at once: an attack
			clear(v.results)
		}
	}
	v.results[key] = result
}

func (*reviewer) login() string { return "token" }
