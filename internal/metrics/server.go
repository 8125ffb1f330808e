package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Address reads where to serve: a port, which is the loopback's, or an IP address with a port. Other machines
// can read only what is told so.
func Address(s string) (string, error) {
	at, err := netip.ParseAddrPort(s)
	if port, notOne := strconv.ParseUint(strings.TrimPrefix(s, ":"), 10, 16); notOne == nil {
		at, err = netip.AddrPortFrom(loopback, uint16(port)), nil
	}
	if err == nil {
		return at.String(), nil
	}
	return "", fmt.Errorf("address %.60q: want a port, such as 9464, which only this machine can read, or IP:PORT, such as 0.0.0.0:9464", s)
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// What a client may take. A scrape takes milliseconds; Prometheus gives up after 10 s unless told.
const (
	headerPatience = 5 * time.Second
	scrapePatience = 10 * time.Second
	idlePatience   = 2 * time.Minute
	mostHeader     = 16 << 10 // bytes
	mostScrapes    = 2        // at a time
)

// Serve answers /metrics, /healthz and /readyz until ctx is done. It returns once it listens.
func (m *Metrics) Serve(ctx context.Context, address string, log *slog.Logger) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	server := &http.Server{
		Handler: m.handler(log), ErrorLog: errorLog, MaxHeaderBytes: mostHeader,
		ReadHeaderTimeout: headerPatience, ReadTimeout: headerPatience, WriteTimeout: 2 * scrapePatience, IdleTimeout: idlePatience,
	}
	context.AfterFunc(ctx, func() { server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "error", err)
		}
	}()
	log.Info("metrics", "address", "http://"+listener.Addr().String()+"/metrics")
	return nil
}

func (m *Metrics) handler(log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: mostScrapes, Timeout: scrapePatience,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !m.ready.Load() {
			http.Error(w, "not connected to the runtime: the log says why", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
