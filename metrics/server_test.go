package metrics

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// site is a metrics server on the loopback interface with short timeouts.
type site struct {
	*bench
	listener *boundedListener
	server   *http.Server
	address  string
}

const patience = 10 * time.Second // upper bound for an answer that the server sends at once

func newSite(t *testing.T, web *WebConfig) *site {
	t.Helper()
	listener, err := listen(t.Context(), "127.0.0.1:0", maxWaiting, maxAnswering)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{bench: newBench(t), listener: listener, address: listener.Addr().String()}
	log := slog.New(slog.DiscardHandler)
	s.server = newServer(s.handler(web, log), listener, log)
	s.server.ReadHeaderTimeout, s.server.ReadTimeout = time.Second, time.Second
	s.server.WriteTimeout, s.server.IdleTimeout = 2*time.Second, time.Second
	go serveOn(s.server, listener, web)
	t.Cleanup(func() { s.server.Close() })
	return s
}

// dial opens a connection and writes text to it.
func (s *site) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", s.address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	io.WriteString(c, text)
	return c
}

// scrape reads the metrics and checks that this takes at most 2 s.
func (s *site) scrape(t *testing.T) {
	t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	start := time.Now()
	answer, err := client.Get("http://" + s.address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("candor_connected 0")) {
		t.Fatalf("%s, %v: %s", answer.Status, err, body)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("a scrape took %v", took)
	}
}

// closed waits until the server closes a connection, and returns all text that the server has written to it.
func closed(t *testing.T, c net.Conn, limit time.Duration) string {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(limit))
	text, err := io.ReadAll(c)
	if timeout, is := err.(net.Error); is && timeout.Timeout() {
		t.Errorf("the connection is open after %v", limit)
	}
	return string(text)
}

const request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

func TestConnectionFlood(t *testing.T) {
	s := newSite(t, nil)
	var before []net.Conn
	for i, text := range []string{request, "GET /healthz HTTP/1.1\r\n", "", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"} {
		for range 300 {
			before = append(before, s.dial(t, text))
		}
		s.scrape(t)
		s.listener.mu.Lock()
		open, serving := len(s.listener.open), s.listener.serving
		s.listener.mu.Unlock()
		if open > maxWaiting+maxAnswering || serving > 2*(maxWaiting+maxAnswering) {
			t.Errorf("flood %d: %d connections are open, %d served", i, open, serving)
		}
	}
	for _, c := range before {
		c.Close()
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s.listener.mu.Lock()
		open, serving := len(s.listener.open), s.listener.serving
		s.listener.mu.Unlock()
		if open == 0 && serving == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d connections are open, %d served after all clients have left", open, serving)
		}
	}
}

// grow makes the metrics larger than the buffers of a socket.
func (s *site) grow(t *testing.T) {
	t.Helper()
	s.registry.MustRegister(newLargeCollector())
	s.scrape(t)
}

func TestSlowReaders(t *testing.T) {
	s := newSite(t, nil)
	s.grow(t)
	var slow []net.Conn
	for range 2 * maxAnswering {
		c := s.dial(t, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
		c.(*net.TCPConn).SetReadBuffer(4096)
		slow = append(slow, c)
	}
	go func() { // the last client reads a byte every 100 ms
		for {
			if _, err := slow[len(slow)-1].Read(make([]byte, 1)); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	for range 10 {
		s.scrape(t)
	}
	time.Sleep(s.server.WriteTimeout)
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s.listener.mu.Lock()
		serving := s.listener.serving
		s.listener.mu.Unlock()
		if serving == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d connections of slow readers are served after %v", serving, s.server.WriteTimeout)
		}
	}
}

func TestStalledClients(t *testing.T) {
	s := newSite(t, nil)
	for _, text := range []string{"G", "GET /metrics HTTP/1.1\r\nHost: x\r\nX: ", request, request + "GET /met"} {
		c := s.dial(t, text)
		if got := closed(t, c, 5*time.Second); strings.Contains(text, request) != strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestTimeouts: the timeouts of the real server are set and at most 15 s. Other tests use shorter timeouts.
func TestTimeouts(t *testing.T) {
	listener, err := listen(t.Context(), "127.0.0.1:0", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := newServer(nil, listener, slog.New(slog.DiscardHandler))
	for name, d := range map[string]time.Duration{"header": s.ReadHeaderTimeout, "read": s.ReadTimeout, "write": s.WriteTimeout, "idle": s.IdleTimeout} {
		if d <= 0 || d > 15*time.Second {
			t.Errorf("%s timeout: %v", name, d)
		}
	}
	if renderTimeout >= requestTimeout {
		t.Error("renderTimeout must be less than requestTimeout, so that a late rendering is answered")
	}
}

// TestSocketLimits: accepted sockets inherit the buffer sizes and the user timeout of the listening socket. A
// connection that is closed to admit a new connection is reset.
func TestSocketLimits(t *testing.T) {
	l, err := listen(t.Context(), "127.0.0.1:0", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	io.WriteString(client, "x")
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := c.(*boundedConn).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		for name, option := range map[string][3]int{
			"send buffer": {unix.SOL_SOCKET, unix.SO_SNDBUF, 2 * sendBuffer}, "receive buffer": {unix.SOL_SOCKET, unix.SO_RCVBUF, 2 * receiveBuffer},
			"user timeout": {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(requestTimeout / time.Millisecond)},
		} {
			if got, err := unix.GetsockoptInt(int(fd), option[0], option[1]); got != option[2] || err != nil {
				t.Errorf("%s: %d, %v; want %d", name, got, err, option[2])
			}
		}
	})
	c.Read(make([]byte, 1)) // with unread data, the kernel would reset the connection in any case
	// The first connection is closed for the second with a reset, which frees its unsent data in the kernel.
	io.WriteString(c, strings.Repeat("x", 1000))
	other, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	io.WriteString(other, "x")
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
	client.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadAll(client); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the closed connection: %v, want a reset", err)
	}
}

func TestOddRequests(t *testing.T) {
	s := newSite(t, nil)
	long := strings.Repeat("a", 12000)
	for _, test := range []struct{ name, request, want string }{
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 400"},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "HTTP/1.1 400"},
		{"long URL", "GET /" + long + " HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
		{"long header", "GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + long + "\r\n\r\n", "HTTP/1.1 400"},
		{"many headers", "GET /metrics HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: y\r\n", 3000) + "\r\n", "HTTP/1.1 400"},
		{"body", "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", "HTTP/1.1 400"},
		{"small body", "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n", "HTTP/1.1 400"},
		{"expected body", "GET /metrics HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", "HTTP/1.1 400"},
		{"chunks", "GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "HTTP/1.1 400"},
		{"smuggled", "GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "HTTP/1.1 400"},
		{"other path", "GET /debug/pprof/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 404"},
		{"path with dots", "GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 307"},
		{"other method", "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "HTTP/1.1 405"},
		{"proxy", "CONNECT x:80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 40"},
		{"upgrade", "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n", "HTTP/1.1 200"},
		{"no host", "GET /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
		{"HTTP/1.0", "GET /healthz HTTP/1.0\r\n\r\n", "HTTP/1.0 200"},
	} {
		start := time.Now()
		if got := closed(t, s.dial(t, test.request), patience); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %.80q; want %s", test.name, got, test.want)
		}
		if took := time.Since(start); took > 400*time.Millisecond {
			t.Errorf("%s: the connection was open for %v", test.name, took)
		}
	}
	s.scrape(t)
}

func TestPipelinedRequests(t *testing.T) {
	s := newSite(t, nil)
	const n = 500 // more bytes in total than maxRequest
	c := s.dial(t, strings.Repeat(request, n))
	reader := bufio.NewReader(c)
	c.SetReadDeadline(time.Now().Add(patience))
	for i := range n {
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if string(body) != "ok\n" || err != nil {
			t.Fatalf("answer %d: %q, %v", i, body, err)
		}
	}
}

// fakeConn is a connection from a client address.
type fakeConn struct {
	net.Conn
	address string
	mu      sync.Mutex
	closed  bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return fakeAddr(c.address) }
func (c *fakeConn) Close() error         { c.mu.Lock(); c.closed = true; c.mu.Unlock(); return nil }

type fakeAddr string

func (a fakeAddr) Network() string { return "tcp" }
func (a fakeAddr) String() string  { return string(a) }

type fakeListener struct {
	net.Listener
	next net.Conn
}

func (l *fakeListener) Accept() (net.Conn, error) { return l.next, nil }

// TestConnectionEviction: clients open connections in order, with room for four waiting and four answered connections.
// The test checks the connections that remain.
func TestConnectionEviction(t *testing.T) {
	for _, test := range []struct {
		name    string
		clients string // a letter per connection; the server answers a request of an upper-case letter
		want    string // remaining connections, oldest first
	}{
		{"a client with many connections loses its oldest", "abaaaa", "baaa"},
		{"equal clients: the oldest connection is closed", "abcde", "bcde"},
		{"a new client replaces a connection of the largest client", "aaaab", "aaab"},
		{"waiting connections do not end an answer", "Abbbbbb", "Abbbb"},
		{"waiting connections do not end an answer of the same client", "Bbbbbb", "Bbbbb"},
		{"answers do not block a waiting connection", "AAAAAAb", "AAAAb"},
		{"a client with many answers loses its oldest", "BAAAAAA", "BAAA"},
	} {
		inner := &fakeListener{}
		l := &boundedListener{Listener: inner, maxWaiting: 4, maxAnswering: 4}
		l.ended.L = &l.mu
		for i, client := range test.clients {
			inner.next = &fakeConn{address: fmt.Sprintf("192.0.2.%d:%d", client|0x20, i+1)}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if client < 'a' {
				l.watch(c, http.StateActive)
			}
		}
		var got strings.Builder
		for _, c := range l.open {
			if c.Conn.(*fakeConn).closed {
				t.Errorf("%s: a closed connection is still listed", test.name)
			}
			letter := c.network.Addr().As4()[3]
			if c.answers {
				letter &^= 0x20
			}
			got.WriteByte(letter)
		}
		if got.String() != test.want {
			t.Errorf("%s: %s becomes %s, want %s", test.name, test.clients, got.String(), test.want)
		}
	}
}

func TestClientNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7:80": "192.0.2.7/32", "[::ffff:192.0.2.7]:80": "192.0.2.7/32", "127.8.9.1:80": "127.0.0.1/32", "[::1]:80": "127.0.0.1/32",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64",
	} {
		if got := clientNetwork(address).String(); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestLandingPage(t *testing.T) {
	b := newBench(t)
	b.version = `v1"><script>alert(1)</script>`
	code, body := b.get("/")
	if code != 200 || strings.Contains(body, "<script") || !strings.Contains(body, "v1&#34;&gt;&lt;script&gt;") {
		t.Errorf("%d %s", code, body)
	}
	for _, link := range []string{`href="metrics"`, `href="healthz"`, `href="readyz"`} {
		if !strings.Contains(body, link) {
			t.Errorf("no %s in %s", link, body)
		}
	}
	if code, _ := b.get("/other"); code != 404 {
		t.Errorf("/other: %d", code)
	}
}
