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

// A guessing is a server with a password, "secret" of prometheus, that counts its hashes.
type guessing struct {
	handler http.Handler
	auth    *basicAuth
	hashes  atomic.Int64
	correct atomic.Int64 // the number of hashes at the last hash of the correct password
}

func newGuessing(t *testing.T) *guessing {
	t.Helper()
	web := newPKI(t).load(t, "basic_auth_users: {prometheus: '"+hash(t, "secret")+"'}")
	g := &guessing{handler: newBench(t).handler(web, nil), auth: web.auth}
	compare := g.auth.compare
	g.auth.compare = func(hash, password []byte) error {
		if n := g.hashes.Add(1); string(password) == "secret" {
			g.correct.Store(n)
		}
		return compare(hash, password)
	}
	return g
}

// get requests a page of an address as a user.
func (g *guessing) get(from, user, password string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	r.RemoteAddr = from
	r.SetBasicAuth(user, password)
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	return w
}

// awaitGuesses waits until a number of networks have a pending guess.
func (g *guessing) awaitGuesses(t *testing.T, want int) {
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

// TestPasswordFlood: wrong passwords of a network delay no client with a proven password, also not of the same network.
func TestPasswordFlood(t *testing.T) {
	p := newPKI(t)
	web := p.load(t, "basic_auth_users: {prometheus: '"+hash(t, "secret")+"'}")
	s := newSite(t, web)
	right := visit{path: "/metrics", user: "prometheus", password: "secret", want: 200}
	p.check(t, s, "http", right)
	web.auth.turn <- struct{}{} // as while a guess is hashed
	s.dial(t, wrongPassword)
	(&guessing{auth: web.auth}).awaitGuesses(t, 1)
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

// TestFirstPasswordInFlood: while clients of a network send wrong passwords without a pause, the first scrape of another
// network waits for few hashes.
func TestFirstPasswordInFlood(t *testing.T) {
	g := newGuessing(t)
	var flood sync.WaitGroup
	var refused atomic.Int64 // guesses of the flood with the answer 429
	done := make(chan struct{})
	defer flood.Wait()
	defer close(done)
	g.auth.turn <- struct{}{} // until the flood and the scrape wait
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
	time.Sleep(20 * time.Millisecond) // from the map to the queue
	<-g.auth.turn
	if code := <-scrape; code != http.StatusOK {
		t.Errorf("the scrape has code %d", code)
	}
	if n := g.correct.Load(); n > 4 { // 2 without other work on the machine
		t.Errorf("the scrape has hash %d, want one hash of the flood before it", n)
	}
	if code := g.get("192.0.2.7:9", "prometheus", "secret").Code; code != http.StatusOK {
		t.Errorf("a second scraper, of the flood's network: code %d", code)
	}
}

// TestPendingGuesses: a network has one guess at a time, and the number of networks has a bound.
func TestPendingGuesses(t *testing.T) {
	g := newGuessing(t)
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
		t.Errorf("%d hashes at the same time as another one", n)
	}
	<-g.auth.turn
	guesses.Wait()
	g.awaitGuesses(t, 0)
	if code := g.get("192.0.2.1:2", "prometheus", "secret").Code; code != http.StatusOK {
		t.Errorf("after the guesses: code %d", code)
	}
}

// TestClientLeavesGuess: a client that leaves while its guess waits takes its network's place with it.
func TestClientLeavesGuess(t *testing.T) {
	p := newPKI(t)
	web := p.load(t, "basic_auth_users: {prometheus: '"+hash(t, "secret")+"'}")
	s := newSite(t, web)
	g := &guessing{auth: web.auth}
	web.auth.turn <- struct{}{}
	c := s.dial(t, wrongPassword)
	g.awaitGuesses(t, 1)
	c.Close()
	g.awaitGuesses(t, 0)
	<-web.auth.turn
}

// TestUnknownUser: an unknown user costs a hash as a known one does, also with the password of a known user.
func TestUnknownUser(t *testing.T) {
	g := newGuessing(t)
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
