package metrics

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a connection in the kernel. They bound the memory that the kernel uses for a client that does not read. The kernel
// keeps the unsent data of a socket even after the connection is closed.
const (
	sendBuffer    = 32 << 10 // bytes; the kernel doubles it
	receiveBuffer = 16 << 10
)

// A boundedListener limits the number of connections that wait for a request, and of connections that answer a request. It
// never waits for a client to leave. At the limit it closes a connection of the network with the most connections in this
// state: the connection that has been in this state for the longest time. So a client with a single address displaces only its own
// connections. Idle connections do not end an answer, and unread answers do not block requests.
type boundedListener struct {
	net.Listener
	maxWaiting, maxAnswering int

	mu      sync.Mutex
	open    []*boundedConn // ordered by the time of the last change between waiting and answering
	serving int            // open connections, and closed connections whose goroutines have not ended
	ended   sync.Cond      // signals that serving decreased, or that the listener is closed
	closed  bool
}

// A boundedConn is a connection that reads maxRequest bytes for a request at most. net/http has a limit too, but keeps the
// goroutine of a longer request for half a second: a flood of longer requests would lock out other clients.
type boundedConn struct {
	net.Conn
	network netip.Prefix
	answers bool         // a request is being answered; guarded by the listener's mu
	read    atomic.Int64 // bytes since the last request
}

func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.read.Add(int64(n)) > maxRequest {
		return 0, errLongRequest
	}
	return n, err
}

var errLongRequest = errors.New("request too long")

// listen opens a bounded listener. The accepted sockets inherit the options of the listening socket (tcp(7), socket(7)).
func listen(ctx context.Context, address string, maxWaiting, maxAnswering int) (*boundedListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if controlErr := raw.Control(func(fd uintptr) { err = setSocketLimits(int(fd)) }); controlErr != nil {
			return controlErr
		}
		return err
	}}
	inner, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	l := &boundedListener{Listener: inner, maxWaiting: maxWaiting, maxAnswering: maxAnswering}
	l.ended.L = &l.mu
	return l, nil
}

func setSocketLimits(fd int) error {
	for _, option := range []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer},
		{unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer},
		{unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, int(headerTimeout / time.Second)}, // silent clients wait in the kernel
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(requestTimeout / time.Millisecond)},
	} {
		if err := unix.SetsockoptInt(fd, option.level, option.name, option.value); err != nil {
			return err
		}
	}
	return nil
}

// Accept returns the next connection. It waits only while the goroutines of many closed connections have not ended.
func (l *boundedListener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	runtime.Gosched() // under a flood, earlier connections read their requests first
	c := &boundedConn{Conn: inner, network: clientNetwork(inner.RemoteAddr().String())}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.serving >= 2*(l.maxWaiting+l.maxAnswering) && !l.closed {
		l.ended.Wait()
	}
	l.serving++
	l.open = append(l.open, c)
	l.makeRoom(false, l.maxWaiting)
	return c, nil
}

// Close closes the listener. A waiting call of Accept returns with an error.
func (l *boundedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.ended.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// makeRoom closes a connection if more than limit connections are answering (answers is true) or waiting (false). It
// closes the oldest of the connections in this state whose network has the most of them.
func (l *boundedListener) makeRoom(answers bool, limit int) {
	count, all, largest := map[netip.Prefix]int{}, 0, 0
	for _, c := range l.open {
		if c.answers == answers {
			all++
			count[c.network]++
			largest = max(largest, count[c.network])
		}
	}
	if all <= limit {
		return
	}
	i := slices.IndexFunc(l.open, func(c *boundedConn) bool { return c.answers == answers && count[c.network] == largest })
	l.open[i].abort()
	l.remove(i)
}

func (l *boundedListener) remove(i int) { l.open = slices.Delete(l.open, i, i+1) }

// watch is the server's ConnState: it records the states of the connections.
func (l *boundedListener) watch(c net.Conn, state http.ConnState) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	bounded, ok := c.(*boundedConn)
	if !ok {
		return
	}
	switch state {
	case http.StateActive: // the header of a request is read
		l.change(bounded, true, l.maxAnswering)
	case http.StateIdle:
		bounded.read.Store(0)
		l.change(bounded, false, l.maxWaiting)
	case http.StateClosed: // the goroutine of the connection ends
		l.forget(bounded)
	}
}

// change moves a connection between waiting and answering.
func (l *boundedListener) change(c *boundedConn, answers bool, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.open, c)
	if i < 0 { // makeRoom has closed the connection
		return
	}
	l.remove(i)
	c.answers = answers
	l.open = append(l.open, c)
	l.makeRoom(answers, limit)
}

func (l *boundedListener) forget(c *boundedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving--
	l.ended.Signal()
	if i := slices.Index(l.open, c); i >= 0 {
		l.remove(i)
	}
}

// abort closes a connection and drops its unsent data.
func (c *boundedConn) abort() {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // an error has no effect, because Close follows
	}
	c.Close()
}

// clientNetwork returns the addresses that one client, at ADDRESS:PORT, can be assumed to have: one IPv4 address, an IPv6 network
// of length 64, or all addresses of the loopback.
func clientNetwork(address string) netip.Prefix {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip := at.Addr().Unmap().WithZone("")
	switch {
	case ip.IsLoopback():
		return netip.PrefixFrom(loopback, loopback.BitLen())
	case ip.Is6():
		network, _ := ip.Prefix(64)
		return network
	default:
		return netip.PrefixFrom(ip, ip.BitLen())
	}
}
