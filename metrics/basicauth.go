package metrics

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"sync"

	"github.com/prometheus/common/config"
	"golang.org/x/crypto/bcrypt"
)

// maxBcryptCost bounds the CPU time of an attempt: about 1 s at 14, and twice as much with each step.
const maxBcryptCost = 14

// maxGuesses bounds the number of client networks with a pending guess (see basicAuth). Each pending guess belongs to a
// connection that waits for an answer.
const maxGuesses = maxAnswering

// A basicAuth checks the passwords of users against bcrypt hashes. A guess is a password that is not proven. To check a guess, the
// server computes a hash, which takes tens of milliseconds of CPU time or more. Two rules bound the delay by wrong passwords:
//   - A password that was right once is proven. Requests with it need no hash.
//   - One hash is computed at a time, in the order of arrival, and a client network has one pending guess at most. So
//     the first request of a network waits for one hash of each other network at most.
type basicAuth struct {
	hashes  map[string][]byte // by user
	other   []byte            // the hash for unknown users, so that the answer takes as long as for a known user
	turn    chan struct{}     // holds a token while a hash is computed; the runtime serves blocked senders in order
	compare func(hash, password []byte) error
	salt    [32]byte

	mu      sync.Mutex
	proven  map[string][sha256.Size]byte // digest of the right password by user
	guesses map[netip.Prefix]bool        // the client networks with a pending guess
}

// newBasicAuth returns nil if there are no users.
func newBasicAuth(users map[string]config.Secret) (*basicAuth, error) {
	if len(users) == 0 {
		return nil, nil
	}
	a := &basicAuth{
		hashes: map[string][]byte{}, turn: make(chan struct{}, 1), compare: bcrypt.CompareHashAndPassword,
		proven: map[string][sha256.Size]byte{}, guesses: map[netip.Prefix]bool{},
	}
	rand.Read(a.salt[:])
	for user, hash := range users {
		cost, err := bcrypt.Cost([]byte(hash))
		if err != nil {
			return nil, fmt.Errorf("basic_auth_users: user %.60q: not a bcrypt hash; use the output of htpasswd -nBC 10", user)
		}
		if cost > maxBcryptCost {
			return nil, fmt.Errorf("basic_auth_users: user %.60q: bcrypt cost %d; must be at most %d", user, cost, maxBcryptCost)
		}
		a.hashes[user], a.other = []byte(hash), []byte(hash)
	}
	return a, nil
}

// guard passes a request to the handler next if the request has the name and the password of a user.
func (a *basicAuth) guard(w http.ResponseWriter, r *http.Request, next http.Handler) {
	switch a.check(r) {
	case http.StatusOK:
		next.ServeHTTP(w, r)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests: another password of this client's network is being checked", http.StatusTooManyRequests)
	default:
		w.Header().Set("WWW-Authenticate", "Basic")
		http.Error(w, "this page needs a user and a password", http.StatusUnauthorized)
	}
}

// check returns the status code for the name and the password of a request: 200 if they are right, 401 if they are wrong. It returns 429
// while another guess of the client's network is pending.
func (a *basicAuth) check(r *http.Request) int {
	user, password, given := r.BasicAuth()
	if !given {
		return http.StatusUnauthorized
	}
	digest := a.digest(user, password)
	if a.isProven(user, digest) {
		return http.StatusOK
	}
	network := clientNetwork(r.RemoteAddr)
	if !a.startGuess(network) {
		return http.StatusTooManyRequests
	}
	defer a.endGuess(network)
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-r.Context().Done():
		return http.StatusUnauthorized
	}
	hash, known := a.hashes[user]
	if !known {
		hash = a.other
	}
	if a.compare(hash, []byte(password)) != nil || !known {
		return http.StatusUnauthorized
	}
	a.mu.Lock()
	a.proven[user] = digest
	a.mu.Unlock()
	return http.StatusOK
}

func (a *basicAuth) isProven(user string, digest [sha256.Size]byte) bool {
	a.mu.Lock()
	proven, known := a.proven[user]
	a.mu.Unlock()
	return known && subtle.ConstantTimeCompare(proven[:], digest[:]) == 1
}

// startGuess reports whether a network can start a guess. If so, the caller must call endGuess.
func (a *basicAuth) startGuess(network netip.Prefix) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.guesses[network] || len(a.guesses) >= maxGuesses {
		return false
	}
	a.guesses[network] = true
	return true
}

func (a *basicAuth) endGuess(network netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.guesses, network)
}

// digest returns a salted digest of a user and a password.
func (a *basicAuth) digest(user, password string) [sha256.Size]byte {
	text := binary.BigEndian.AppendUint64(a.salt[:len(a.salt):len(a.salt)], uint64(len(user)))
	return sha256.Sum256(append(append(text, user...), password...))
}
