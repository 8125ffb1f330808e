package web

import (
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/candor-project/candor/kube/apiserver"
)

//go:embed page
var page embed.FS

// Options are the options of a Server.
type Options struct {
	Config  *rest.Config // access to the API server
	Cluster string       // name of the cluster, for the title of the page
	// Prometheus is the address of a Prometheus that scrapes the agents, for the throttling of the nodes; nil disables it.
	Prometheus *url.URL
	// Announce receives a one-time token: at the start of the server, and again whenever a session has used the token. It must
	// not block. If it is nil, the server reviews the token and the rights of each request at the API server.
	Announce func(oneTime string)
	Log      *log.Logger // errors of connections; nil discards them
}

// A Server serves the page. It only reads from the cluster.
type Server struct {
	options       Options
	access        access
	sessionAccess *sessionAccess // nil in a cluster
	reports       *reports
	reader        apiserver.Reader
	pods          podIndex
	throttling    throttling
	streams       chan struct{} // bounds the browsers that receive changes
	dryRuns       chan struct{} // bounds the dry runs: each reads the whole cluster
	errors        *log.Logger
}

const (
	maxStreams      = 1000
	heartbeat       = 20 * time.Second // time between two events: proxies close silent connections
	recheckInterval = time.Minute      // time between two reviews of the rights of a stream
	writeTimeout    = 30 * time.Second // of an event
	bodyTimeout     = 30 * time.Second // of the body of a request, which the server reads even if the handler does not
	answerTimeout   = 5 * time.Minute  // of an answer; a dry run in a large cluster takes many seconds
	syncTimeout     = 20 * time.Second // wait of the first browser for the reports
)

// New returns a server. It sends no request.
func New(o Options) (*Server, error) {
	client, err := restClient(o.Config)
	if err != nil {
		return nil, err
	}
	s := newServer(o, &reader{client})
	if o.Announce != nil {
		var oneTime string
		s.sessionAccess, oneTime = newSessionAccess(o.Announce)
		s.access = s.sessionAccess
		o.Announce(oneTime)
		return s, nil
	}
	all, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	s.access = newReviewer(all)
	return s, nil
}

// newServer returns a server without an access.
func newServer(o Options, r apiserver.Reader) *Server {
	s := &Server{
		options: o, reports: newReports(), reader: r, pods: podIndex{reader: r}, streams: make(chan struct{}, maxStreams), dryRuns: make(chan struct{}, 1), errors: o.Log,
		throttling: throttling{address: o.Prometheus, client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}},
	}
	if s.errors == nil {
		s.errors = log.New(io.Discard, "", 0)
	}
	return s
}

// Serve watches the reports and serves the page on a listener until ctx is done. It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 2 * maxToken, ErrorLog: s.errors,
		BaseContext: func(net.Listener) context.Context { return ctx }, // ends the streams
	}
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(l) }()
	go func() {
		if err := s.reports.watch(ctx, s.options.Config); err != nil {
			failed <- err
		}
	}()
	select {
	case err := <-failed:
		return errors.Join(err, server.Close())
	case <-ctx.Done():
		return server.Close()
	}
}

// Handler returns the handler of the page and of its data.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the directory is embedded
	}
	mux.Handle("GET /{$}", static(files, "index.html"))
	for _, name := range []string{"page.js", "page.css", "icon.svg"} {
		mux.Handle("GET /"+name, static(files, name))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("POST /api/session", s.session)
	mux.Handle("GET /api/info", s.data(s.info, listReports))
	mux.Handle("GET /api/map", s.data(s.mapOfAll, listReports))
	mux.Handle("GET /api/events", s.data(s.events, listReports))
	mux.Handle("GET /api/node", s.data(s.node, listReports))
	mux.Handle("GET /api/throttling", s.data(s.throttled, listReports))
	mux.Handle("GET /api/pods", s.data(s.search, listReports, listPods))
	mux.Handle("GET /api/pod", s.data(s.pod, listReports, listPods, listNodes))
	return s.secure(mux)
}

// static serves a file of the page. Browsers ask each time whether the file has changed.
func static(files fs.FS, name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, files, name)
	})
}

// policy lets the page load only files of this server, and no other page frame it.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// secure adds the headers that confine the page, and bounds the times of a body and of an answer. On the machine of a user, it
// refuses requests to names of other machines: a page whose name an attacker maps to this address could read the files of the
// page otherwise.
func (s *Server) secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout)) // recorders of tests have no deadline
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		if s.sessionAccess != nil && !isAddress(r.Host) {
			http.Error(w, "the address of the page must have an IP address or localhost", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isAddress reports whether the host of a request is an IP address or localhost.
func isAddress(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || net.ParseIP(trimBrackets(host)) != nil
}

func trimBrackets(host string) string {
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}

// data returns a handler that checks the token and the rights of a request first.
func (s *Server) data(do func(http.ResponseWriter, *http.Request) error, rights ...right) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		err := s.authorize(r, rights...)
		if err == nil {
			err = do(w, r)
		}
		if err != nil {
			s.fail(w, err)
		}
	})
}

// authorize returns nil if the user of a request has the rights. A client without a valid token does not receive the text of an
// error of the API server, which has addresses of the cluster.
func (s *Server) authorize(r *http.Request, rights ...right) error {
	err := s.access.check(r.Context(), bearer(r), rights...)
	if err == nil || errors.Is(err, errLogin) || errors.Is(err, errForbidden) || errors.Is(err, errBusy) {
		return err
	}
	s.errors.Print(err)
	return errNoReview
}

var errNoReview = errors.New("the API server cannot review the token; the log of candor-web has the reason")

// A failure is the answer to a request that failed.
type failure struct {
	Error string `json:"error"`
	Login string `json:"login,omitempty"` // with status 401: how the user gets a token, "address" or "token"
}

// fail answers a request that failed.
func (s *Server) fail(w http.ResponseWriter, err error) {
	f, code := failure{Error: err.Error()}, http.StatusBadGateway
	var bad *badRequest
	switch {
	case errors.Is(err, errLogin):
		f.Login, code = s.access.login(), http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", "Bearer")
	case errors.Is(err, errForbidden), apierrors.IsForbidden(err):
		code = http.StatusForbidden
	case errors.Is(err, errNoNode), errors.Is(err, errNoPod):
		code = http.StatusNotFound
	case errors.Is(err, errBusy):
		code = http.StatusServiceUnavailable
	case errors.As(err, &bad):
		code = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(f) // the connection can be closed
}

// A badRequest is the error for an invalid parameter.
type badRequest struct{ text string }

func (e *badRequest) Error() string { return e.text }

var errBusy = errors.New("the server is busy; try again later")

// writeJSON writes an answer.
func writeJSON(w http.ResponseWriter, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the connection can be closed
	return nil
}

// session exchanges a one-time token for the token of a session.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	var request struct{ Token string }
	if s.sessionAccess == nil {
		s.fail(w, &badRequest{"sessions are only for kubectl candor web: use a token of the cluster"})
		return
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&request); err != nil {
		s.fail(w, &badRequest{"the request must be a JSON object with token"})
		return
	}
	token, err := s.sessionAccess.start(request.Token)
	if err == nil {
		err = writeJSON(w, map[string]string{"session": token})
	}
	if err != nil {
		s.fail(w, err)
	}
}

// An info is what the page needs to know about the server.
type info struct {
	Cluster    string `json:"cluster"`
	Throttling bool   `json:"throttling"` // Prometheus is configured
	Now        int64  `json:"now"`        // seconds since 1970: the clock of the browser can differ
}

func (s *Server) info(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, info{s.options.Cluster, s.options.Prometheus != nil, time.Now().Unix()})
}

// mapOfAll answers with the packed map of all nodes.
func (s *Server) mapOfAll(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), syncTimeout)
	defer cancel()
	packed, err := s.reports.all(ctx)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Encoding", "gzip") // every browser decompresses it
	_, _ = w.Write(packed)
	return nil
}

// events sends the changes after the revision of the browser's map as server-sent events, until the browser leaves. An event has
// a packed map of the changed nodes in base64. The event "reset" means that the browser must read the whole map again, "problem"
// has an error of the API server or, if the data is empty, its end.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	revision, err := strconv.ParseUint(r.FormValue("since"), 10, 53)
	if err != nil {
		return &badRequest{"since: must be the revision of a map"}
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return errBusy
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx must not wait for a full buffer
	out := &stream{w, http.NewResponseController(w)}
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	checked, problem := time.Now(), ""
	if out.send(":\n\n") != nil { // the headers tell the browser that it is connected
		return nil
	}
	for {
		c := s.reports.after(revision)
		if c.problem != problem {
			problem = c.problem
			text, _ := json.Marshal(problem) // a string has no error
			if out.send("event: problem\ndata: "+string(text)+"\n\n") != nil {
				return nil
			}
		}
		switch {
		case c.isStale:
			_ = out.send("event: reset\ndata:\n\n") // the stream ends, with or without an error
			return nil
		case c.batch != nil:
			if out.send("data: "+base64.StdEncoding.EncodeToString(c.batch.data)+"\n\n") != nil {
				return nil
			}
			revision = c.batch.to
			continue
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-c.signal:
		case <-alive.C:
			if out.send(":\n\n") != nil {
				return nil
			}
		}
		if time.Since(checked) >= recheckInterval {
			if s.access.check(r.Context(), bearer(r), listReports) != nil {
				return nil // the browser connects again and gets the reason
			}
			checked = time.Now()
		}
	}
}

// A stream is the answer with the events of a browser.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// send writes an event at once. A browser that does not read ends the stream.
func (s *stream) send(event string) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write([]byte(event)); err != nil {
		return err
	}
	return s.rc.Flush()
}

// objectName is the form of the names of nodes, namespaces and pods. Other names could change the path of a request.
var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// nameIn returns the name in a parameter.
func nameIn(r *http.Request, parameter string) (string, error) {
	name := r.FormValue(parameter)
	if !objectName.MatchString(name) {
		return "", &badRequest{fmt.Sprintf("%s %.60q: must be the name of an object", parameter, name)}
	}
	return name, nil
}

// node answers with a node and its containers.
func (s *Server) node(w http.ResponseWriter, r *http.Request) error {
	name, err := nameIn(r, "name")
	if err != nil {
		return err
	}
	err = s.access.check(r.Context(), bearer(r), listPods)
	if err != nil && !errors.Is(err, errForbidden) {
		return err
	}
	a, err := openNode(r.Context(), s.reports, s.reader, name, err == nil)
	if err != nil {
		return err
	}
	return writeJSON(w, a)
}

// maxSearch bounds the text of a search: namespace/name.
const maxSearch = 63 + 1 + 253

// search answers with the pods whose namespace/name contains a text.
func (s *Server) search(w http.ResponseWriter, r *http.Request) error {
	text := r.FormValue("q")
	if text == "" || len(text) > maxSearch {
		return &badRequest{fmt.Sprintf("q: must have 1 to %d bytes", maxSearch)}
	}
	a, err := s.pods.find(r.Context(), text)
	if err != nil {
		return err
	}
	return writeJSON(w, a)
}

// pod answers with a pod and, if it waits, the refusals of the nodes.
func (s *Server) pod(w http.ResponseWriter, r *http.Request) error {
	namespace, err := nameIn(r, "namespace")
	if err != nil {
		return err
	}
	name, err := nameIn(r, "name")
	if err != nil {
		return err
	}
	select {
	case s.dryRuns <- struct{}{}:
		defer func() { <-s.dryRuns }()
	case <-r.Context().Done():
		return r.Context().Err()
	}
	a, err := explainPod(r.Context(), s.reader, namespace, name)
	if err != nil {
		return err
	}
	return writeJSON(w, a)
}

// throttled answers with the throttling of the nodes.
func (s *Server) throttled(w http.ResponseWriter, r *http.Request) error {
	if s.options.Prometheus == nil {
		return &badRequest{"no Prometheus is configured: --prometheus, or web.prometheus of the chart"}
	}
	shares, err := s.throttling.read(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, map[string]any{"nodes": shares})
}
