package metrics

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// guessServer is a server with the user prometheus and the password "secret". It counts its hash computations.
type guessServer struct {
	handler http.Handler
	auth    *basicAuth
	hashes  atomic.Int64
	correct atomic.Int64 // number of hashes when the correct password was last hashed
}

func newGuessServer(t *testing.T) *guessServer {
	t.Helper()
	web := newPKI(t).load(t, "basic_auth_users: {prometheus: '"+hash(t, "secret")+"'}")
	g := &guessServer{handler: newBench(t).handler(web, nil), auth: web.auth}
	compare := g.auth.compare
	g.auth.compare = func(hash, password []byte) error {
		if n := g.hashes.Add(1); string(password) == "secret" {
			g.correct.Store(n)
		}
		return compare(hash, password)
	}
	return g
}

// get requests the page / from a client address as a user.
func (g *guessServer) get(from, user, password string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	r.RemoteAddr = from
	r.SetBasicAuth(user, password)
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	return w
}

// awaitGuesses waits until want networks have a pending guess.
func (g *guessServer) awaitGuesses(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		g.auth.mu.Lock()
		got := len(g.auth.guesses)
		g.auth.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d networks have a pending guess, want %d", got, want)
		}
	}
}

const wrongPassword = "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic cHJvbWV0aGV1czp3cm9uZw==\r\n\r\n"

// TestPasswordFlood: wrong passwords from a network do not delay clients with a cached password, also of the
// same network. A second guess is answered with 429 at once.
func TestPasswordFlood(t *testing.T) {
	p := newPKI(t)
	web := p.load(t, "basic_auth_users: {prometheus: '"+hash(t, "secret")+"'}")
	s := newSite(t, web)
	right := visit{path: "/metrics", user: "prometheus", password: "secret", want: 200}
	p.check(t, s, "http", right)
	web.auth.turn <- struct{}{} // taken as if a guess is hashed
	s.dial(t, wrongPassword)
	(&guessServer{auth: web.auth}).awaitGuesses(t, 1)
	for range maxAnswering / 2 {
		c := s.dial(t, wrongPassword)
		c.SetReadDeadline(time.Now().Add(time.Second))
		answer := make([]byte, 512)
		n, err := c.Read(answer)
		if !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 429 ")) || !bytes.Contains(answer[:n], []byte("\r\nRetry-After: 1\r\n")) {
			t.Fatalf("a second guess: %q, %v; want 429 at once", answer[:n], err)
		}
	}
	p.check(t, s, "http", right)
	<-web.auth.turn
	if len(web.auth.proven) != 1 {
		t.Errorf("%d passwords are cached, want 1", len(web.auth.proven))
	}
}

// TestFirstPasswordInFlood: clients of a network send wrong passwords without a pause. The first scrape of
// another network waits for few hashes.
func TestFirstPasswordInFlood(t *testing.T) {
	g := newGuessServer(t)
	var flood sync.WaitGroup
	var refused atomic.Int64 // guesses of the flood that were answered with 429
	done := make(chan struct{})
	defer flood.Wait()
	defer close(done)
	g.auth.turn <- struct{}{} // blocks hashing until the flood and the scrape wait
	for i := range maxAnswering - 1 {
		flood.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if code := g.get(fmt.Sprintf("192.0.2.7:%d", 1024+i), "prometheus", "wrong").Code; code == http.StatusTooManyRequests {
					refused.Add(1)
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for end := time.Now().Add(patience); refused.Load() < maxAnswering; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the flood has more than one pending guess")
		}
	}
	g.awaitGuesses(t, 1)
	scrape := make(chan int)
	go func() { scrape <- g.get("192.0.2.8:1024", "prometheus", "secret").Code }()
	g.awaitGuesses(t, 2)
	time.Sleep(20 * time.Millisecond) // the guess is in the map before it waits in the queue
	<-g.auth.turn
	if code := <-scrape; code != http.StatusOK {
		t.Errorf("the scrape has code %d", code)
	}
	if n := g.correct.Load(); n > 4 { // 2 on an idle machine
		t.Errorf("the scrape has hash number %d, want 4 at most", n)
	}
	if code := g.get("192.0.2.7:9", "prometheus", "secret").Code; code != http.StatusOK {
		t.Errorf("a second scraper in the network of the flood: code %d", code)
	}
}

// TestPendingGuesses: a network has at most a single pending guess, and the number of networks with a guess
// is bounded.
func TestPendingGuesses(t *testing.T) {
	g := newGuessServer(t)
	g.auth.turn <- struct{}{}
	var guesses sync.WaitGroup
	for i := range maxGuesses {
		guesses.Go(func() {
			if code := g.get(fmt.Sprintf("192.0.2.%d:1", i), "prometheus", "wrong").Code; code != http.StatusUnauthorized {
				t.Errorf("network %d: code %d", i, code)
			}
		})
	}
	g.awaitGuesses(t, maxGuesses)
	for from, password := range map[string]string{"192.0.2.1:2": "secret", "[::ffff:192.0.2.1]:2": "wrong", "198.51.100.1:1": "wrong", "@": "wrong"} {
		w := g.get(from, "prometheus", password)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: code %d, %v", from, w.Code, w.Header())
		}
	}
	if n := g.hashes.Load(); n != 0 {
		t.Errorf("%d hashes during another hash, want 0", n)
	}
	<-g.auth.turn
	guesses.Wait()
	g.awaitGuesses(t, 0)
	if code := g.get("192.0.2.1:2", "prometheus", "secret").Code; code != http.StatusOK {
		t.Errorf("after the guesses: code %d", code)
	}
}

// TestClientLeavesGuess: a client closes its connection while its guess waits. The guess is removed.
func TestClientLeavesGuess(t *testing.T) {
	p := newPKI(t)
	web := p.load(t, "basic_auth_users: {prometheus: '"+hash(t, "secret")+"'}")
	s := newSite(t, web)
	g := &guessServer{auth: web.auth}
	web.auth.turn <- struct{}{}
	c := s.dial(t, wrongPassword)
	g.awaitGuesses(t, 1)
	c.Close()
	g.awaitGuesses(t, 0)
	<-web.auth.turn
}

// TestUnknownUser: a guess for an unknown user costs a hash, like a guess for a known user. The password of
// another user is refused.
func TestUnknownUser(t *testing.T) {
	g := newGuessServer(t)
	known := g.auth.hashes["prometheus"]
	compare := g.auth.compare
	g.auth.compare = func(hash, password []byte) error {
		if !bytes.Equal(hash, known) {
			t.Errorf("hash %q, want the hash of a known user", hash)
		}
		return compare(hash, password)
	}
	for i, guess := range [][2]string{{"prometheus", "wrong"}, {"admin", "wrong"}, {"admin", "secret"}, {"", "secret"}, {"", ""}} {
		if code := g.get("192.0.2.7:1", guess[0], guess[1]).Code; code != http.StatusUnauthorized {
			t.Errorf("%q: code %d", guess, code)
		}
		if got := g.hashes.Load(); got != int64(i+1) {
			t.Errorf("%q: %d hashes, want one for each guess", guess, got)
		}
	}
	if len(g.auth.proven) != 0 {
		t.Errorf("%d passwords are cached", len(g.auth.proven))
	}
}
