package metrics

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"net/http"
	"sync"

	"github.com/prometheus/common/config"
	"golang.org/x/crypto/bcrypt"
)

// maxBcryptCost bounds the CPU time of an attempt: about 1 s at 14, and twice as much with each step.
const maxBcryptCost = 14

// A basicAuth checks the passwords of users against bcrypt hashes. A hash takes tens of milliseconds of CPU time, so one
// is computed at a time, and a client with the right password waits for it once: what attackers try delays no later scrape.
type basicAuth struct {
	hashes map[string][]byte // by user
	other  []byte            // the hash for unknown users: the answer takes as long as for a known one
	turn   chan struct{}     // holds a token while a hash is computed
	salt   [32]byte

	mu     sync.Mutex
	proven map[string][sha256.Size]byte // digest of the right password by user
}

// newBasicAuth returns nil where there are no users.
func newBasicAuth(users map[string]config.Secret) (*basicAuth, error) {
	if len(users) == 0 {
		return nil, nil
	}
	a := &basicAuth{hashes: map[string][]byte{}, turn: make(chan struct{}, 1), proven: map[string][sha256.Size]byte{}}
	rand.Read(a.salt[:])
	for user, hash := range users {
		cost, err := bcrypt.Cost([]byte(hash))
		if err != nil {
			return nil, fmt.Errorf("basic_auth_users: user %.60q: not a bcrypt hash; want the output of htpasswd -nBC 10", user)
		}
		if cost > maxBcryptCost {
			return nil, fmt.Errorf("basic_auth_users: user %.60q: bcrypt cost %d; want %d at most", user, cost, maxBcryptCost)
		}
		a.hashes[user], a.other = []byte(hash), []byte(hash)
	}
	return a, nil
}

// accepts reports whether a request has the name and the password of a user.
func (a *basicAuth) accepts(r *http.Request) bool {
	user, password, given := r.BasicAuth()
	if !given {
		return false
	}
	digest := a.digest(user, password)
	a.mu.Lock()
	proven, known := a.proven[user]
	a.mu.Unlock()
	if known && subtle.ConstantTimeCompare(proven[:], digest[:]) == 1 {
		return true
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-r.Context().Done():
		return false
	}
	hash, known := a.hashes[user]
	if !known {
		hash = a.other
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !known {
		return false
	}
	a.mu.Lock()
	a.proven[user] = digest
	a.mu.Unlock()
	return true
}

// digest returns a salted digest of a user and a password.
func (a *basicAuth) digest(user, password string) [sha256.Size]byte {
	text := binary.BigEndian.AppendUint64(a.salt[:len(a.salt):len(a.salt)], uint64(len(user)))
	return sha256.Sum256(append(append(text, user...), password...))
}
