package metrics

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// A renderer renders the metrics as text, once for all scrapes that wait at the same time. A scrape gets a rendering that
// started after its request, so that the values are not older than the request.
//
// After a rendering, the renderer pauses for four times the duration of the rendering, at most maxRest. So rendering takes at most a fifth
// of a CPU, independent of the clients; only a rendering of over 250 ms takes more. In a flood of scrapes, scrapes during the pause get the
// last rendering.
type renderer struct {
	gatherer prometheus.Gatherer
	log      *slog.Logger

	mu      sync.Mutex
	next    *rendering // waits for its start; nil: none
	last    *rendering // last rendering; set only in a flood, during the pause after this rendering
	running bool
}

const (
	maxRest = time.Second // longest pause between two renderings
	flood   = 8           // a flood is at least this number of scrapes for a rendering
)

// A rendering is the metrics at a point in time. It is compressed to a twentieth of the text, because clients that read
// slowly keep their renderings in memory.
type rendering struct {
	scrapes int // number of waiting scrapes; guarded by the renderer's mu

	done chan struct{} // closed when the fields below are set
	zip  []byte
	size int64 // bytes of the uncompressed text
	err  error
}

// render returns a rendering that starts after the call. In a flood of scrapes, it can return a rendering that ended up to maxRest
// before the call.
func (r *renderer) render(ctx context.Context) (*rendering, error) {
	p := r.rendering()
	select {
	case <-p.done:
		return p, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rendering returns the rendering that a scrape gets.
func (r *renderer) rendering() *rendering {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil {
		return r.last
	}
	if r.next == nil {
		r.next = &rendering{done: make(chan struct{})}
	}
	r.next.scrapes++
	if !r.running {
		r.running = true
		go r.run()
	}
	return r.next
}

// run renders until no scrape waits.
func (r *renderer) run() {
	zip := gzip.NewWriter(nil)
	for {
		p := r.nextRendering()
		if p == nil {
			return
		}
		start := time.Now()
		p.fill(r.gatherer, zip, r.log)
		r.mu.Lock()
		if p.scrapes >= flood {
			r.last = p
		}
		r.mu.Unlock()
		close(p.done)
		time.Sleep(min(4*time.Since(start), maxRest))
	}
}

// nextRendering ends the pause after the last rendering. It returns the rendering that starts now; nil ends the renderer's goroutine.
func (r *renderer) nextRendering() *rendering {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.next
	r.next, r.last, r.running = nil, nil, p != nil
	return p
}

// fill gathers and encodes the metrics. If some metrics cannot be gathered, the rendering has the rest.
func (p *rendering) fill(from prometheus.Gatherer, zip *gzip.Writer, log *slog.Logger) {
	families, err := from.Gather()
	if err != nil {
		log.Warn("metrics: a scrape is incomplete", "error", err)
		if len(families) == 0 {
			p.err = err
			return
		}
	}
	var packed bytes.Buffer
	zip.Reset(&packed)
	text := &countingWriter{Writer: zip}
	encoder := expfmt.NewEncoder(text, textFormat)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			p.err = err
			return
		}
	}
	p.err = zip.Close()
	p.zip, p.size = bytes.Clone(packed.Bytes()), text.n
}

// textFormat is the only format: every Prometheus reads it.
var textFormat = expfmt.NewFormat(expfmt.TypeTextPlain)

// A countingWriter counts the bytes that it writes.
type countingWriter struct {
	io.Writer
	n int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.n += int64(n)
	return n, err
}

// ServeHTTP answers a scrape. While it writes the answer, it holds no lock, so other scrapes do not wait for a slow client.
func (r *renderer) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), renderTimeout)
	defer cancel()
	p, err := r.render(ctx)
	switch {
	case ctx.Err() != nil:
		http.Error(w, "the metrics are not ready in time", http.StatusServiceUnavailable)
		return
	case err != nil:
		http.Error(w, "cannot read the metrics; the log has the reason", http.StatusInternalServerError)
		return
	}
	head := w.Header()
	head.Set("Content-Type", string(textFormat))
	head.Set("Vary", "Accept-Encoding")
	if acceptsGzip(request.Header) {
		head.Set("Content-Encoding", "gzip")
		head.Set("Content-Length", strconv.Itoa(len(p.zip)))
		_, _ = w.Write(p.zip) // an error means that the client has left
		return
	}
	head.Set("Content-Length", strconv.FormatInt(p.size, 10))
	p.writeText(w)
}

// An unpacker decompresses a rendering for a client that does not accept gzip.
type unpacker struct {
	gzip.Reader
	chunk [4 << 10]byte
}

var unpackers = sync.Pool{New: func() any { return new(unpacker) }}

// writeText writes the text in chunks, so that the whole text of a slow client is not in memory.
func (p *rendering) writeText(w io.Writer) {
	u := unpackers.Get().(*unpacker)
	defer unpackers.Put(u)
	if u.Reset(bytes.NewReader(p.zip)) == nil {
		// The wrapper of w hides ReaderFrom, which has a larger buffer. An error means that the client has left.
		_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{u}, u.chunk[:])
	}
}

// acceptsGzip reports whether a client can read gzip (RFC 9110, 12.5.3).
func acceptsGzip(head http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(head.Values("Accept-Encoding"), ","), ",") {
		name, quality, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, q, given := strings.Cut(quality, "=")
		value, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		return !given || err == nil && value > 0
	}
	return false
}
