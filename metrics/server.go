package metrics

import (
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Address parses the address of the metrics server: IP:PORT, or only a port, which means this port on the loopback. Other
// machines cannot reach the loopback.
func Address(s string) (string, error) {
	at, err := netip.ParseAddrPort(s)
	if port, portErr := strconv.ParseUint(strings.TrimPrefix(s, ":"), 10, 16); portErr == nil {
		at, err = netip.AddrPortFrom(loopback, uint16(port)), nil
	}
	if err == nil {
		return at.String(), nil
	}
	return "", fmt.Errorf("address %.60q: must be a port, such as 9464, which only this machine can read, or IP:PORT, such as 0.0.0.0:9464", s)
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Limits of a client. A scrape takes milliseconds; by default Prometheus gives up after 10 s.
const (
	headerTimeout  = 5 * time.Second  // for the TLS handshake, and for the request
	renderTimeout  = 8 * time.Second  // until the metrics are ready
	requestTimeout = 12 * time.Second // from the end of the request's header to the end of the answer
	idleTimeout    = 10 * time.Second // between two requests
	maxRequest     = 8 << 10          // bytes of a request, with its part of the TLS handshake

	// Memory: a connection takes 12 KiB, or 35 KiB with TLS. An answer to a client without gzip takes 50 KiB more.
	maxWaiting   = 32 // connections without a request
	maxAnswering = 64 // connections with a request
)

// Serve answers /metrics, /healthz, /readyz and / until ctx is done. It returns as soon as the server listens. If the web
// configuration is nil, it serves plain HTTP without a password.
func (m *Metrics) Serve(ctx context.Context, address string, web *WebConfig, log *slog.Logger) error {
	listener, err := listen(ctx, address, maxWaiting, maxAnswering)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	server := newServer(m.handler(web, log), listener, log)
	context.AfterFunc(ctx, func() { _ = server.Close() }) // does not wait for open requests, because the process ends
	scheme := "http"
	if web.hasTLS() {
		scheme = "https"
	}
	go func() {
		if err := serveOn(server, listener, web); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics: the server has ended", "error", err)
		}
	}()
	log.Info("metrics", "address", scheme+"://"+listener.Addr().String()+"/metrics")
	return nil
}

// serveOn serves until the server is closed.
func serveOn(server *http.Server, listener net.Listener, web *WebConfig) error {
	if !web.hasTLS() {
		return server.Serve(listener)
	}
	server.TLSConfig = web.tls
	return server.ServeTLS(listener, "", "")
}

// newServer returns a server with the limits above. It has no HTTP/2, because the streams of a connection would exceed the
// listener's limit of requests.
func newServer(handler http.Handler, listener *boundedListener, log *slog.Logger) *http.Server {
	server := &http.Server{
		Handler: handler, ConnState: listener.watch, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: requestTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: 2 * maxRequest, // the listener's limit comes first
		Protocols:      new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	return server
}

// handler returns the pages. The health checks need no password and no certificate, because a kubelet has neither.
func (m *Metrics) handler(web *WebConfig, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", web.guard(&renderer{gatherer: m.registry, log: log}))
	mux.Handle("GET /{$}", web.guard(landingPage(m.version)))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !m.ready.Load() {
			http.Error(w, "not connected to the runtime; the log has the reason", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return refuseBodies(web.addHeaders(mux))
}

// refuseBodies refuses requests with a body, which no page reads. net/http would wait for the rest of a short body after the
// answer, and keep the goroutine of a request with a long body for half a second.
func refuseBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		r.Body = http.NoBody
		_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // cannot fail: net/http supports deadlines
		w.Header().Set("Connection", "close")
		http.Error(w, "requests must not have a body", http.StatusBadRequest)
	})
}

const landingText = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>candor nri</title></head>
<body>
<h1>candor nri</h1>
<p>Version %s</p>
<ul>
<li><a href="metrics">Metrics</a></li>
<li><a href="healthz">Health</a>: the process is alive</li>
<li><a href="readyz">Readiness</a>: the plugin is connected to the runtime</li>
</ul>
</body>
</html>
`

// landingPage links to the other pages.
func landingPage(version string) http.Handler {
	text := fmt.Sprintf(landingText, html.EscapeString(version))
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		fmt.Fprint(w, text)
	})
}
