package events

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A writeAt is an accepted write of a series.
type writeAt struct {
	key
	at time.Time
}

// A model is a backlog with the totals of its occurrences and all its writes.
type model struct {
	backlog
	now                     time.Time
	added, dropped, written int
	writes                  []writeAt
}

func newModel() *model {
	start := time.Unix(1_800_000_000, 0)
	return &model{backlog: newBacklog(start), now: start}
}

func (m *model) record(k key, note string) {
	m.added++
	m.dropped += m.add(k, note, m.now)
}

// write makes the next write, if there is any. fault is nothing, or the result of the write: refused, missing or lost.
func (m *model) write(fault string) (isWritten bool) {
	m.dropped += m.dropOutdated(m.now)
	s, _ := m.next(m.now)
	if s == nil {
		return false
	}
	d := m.draft(s)
	switch fault {
	case "refused":
		m.dropped += m.drop(s)
	case "missing":
		s.missing()
	case "lost":
	default:
		m.done(d, "name", m.now)
		m.written += d.added
		m.writes = append(m.writes, writeAt{d.key, m.now})
	}
	return fault == ""
}

func podKey(i int, reason Reason) key {
	return key{Pod{"default", fmt.Sprintf("pod-%d", i), fmt.Sprintf("uid-%d", i)}, reason}
}

// check checks the invariants: the bounds of the queue and of the memory, the rate limits, and that no occurrence is lost.
func (m *model) check(t interface{ Fatalf(string, ...any) }) {
	if len(m.queue) > burst || len(m.all) > maxSeries || m.credit < 0 || m.credit+time.Duration(len(m.queue))*perEvent > burst*perEvent {
		t.Fatalf("%d queued, %d series, credit %v", len(m.queue), len(m.all), m.credit)
	}
	pending := 0
	for k, s := range m.all {
		if pending += s.unwritten; s.key != k || s.unwritten == 0 && (s.isQueued || s.writtenAt.IsZero()) {
			t.Fatalf("series %+v of key %v", s, k)
		}
	}
	if m.added != m.written+m.dropped+pending {
		t.Fatalf("%d occurrences added: %d written, %d dropped, %d pending", m.added, m.written, m.dropped, pending)
	}
}

// checkWrites checks the rate limits of all writes: burst and one per perEvent for the node, and one per interval for a key.
func (m *model) checkWrites(t interface{ Fatalf(string, ...any) }) {
	last := map[key]time.Time{}
	for j, w := range m.writes {
		for i := range m.writes[:j] {
			took := w.at.Sub(m.writes[i].at)
			if n := j - i + 1; n > burst+int(took/perEvent) {
				t.Fatalf("%d writes in %v", n, took)
			}
		}
		if before, isRepeated := last[w.key]; isRepeated && w.at.Sub(before) < interval {
			t.Fatalf("two writes of %v within %v", w.key, w.at.Sub(before))
		}
		last[w.key] = w.at
	}
}

// TestBacklogLimits: the invariants hold for all sequences of occurrences, pauses, writes and failures.
func TestBacklogLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		pods := rapid.IntRange(1, 3*maxSeries).Draw(t, "pods")
		t.Repeat(map[string]func(*rapid.T){
			"record": func(t *rapid.T) {
				for range rapid.IntRange(1, 60).Draw(t, "occurrences") {
					m.record(podKey(rapid.IntRange(0, pods).Draw(t, "pod"), DowngradedNoLimit), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "note"))
				}
			},
			"pause": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.Int64Range(0, int64(rapid.SampledFrom([]time.Duration{3 * time.Second, time.Minute, 2 * time.Hour}).Draw(t, "scale"))).Draw(t, "pause")))
			},
			"fault": func(t *rapid.T) { m.write(rapid.SampledFrom([]string{"refused", "missing", "lost"}).Draw(t, "fault")) },
			"write": func(t *rapid.T) {
				for range rapid.IntRange(1, 30).Draw(t, "writes") {
					m.write("")
				}
			},
			"": func(t *rapid.T) { m.check(t) },
		})
		m.checkWrites(t)
	})
}

// TestThousandPods: 1,000 pods in a minute cause 25 writes at once and one per second. All other occurrences count as dropped.
func TestThousandPods(t *testing.T) {
	m := newModel()
	const pods, took = 1000, time.Minute
	for i := range pods {
		m.record(podKey(i, DowngradedNoLimit), "a")
		m.write("")
		m.now = m.now.Add(took / pods)
	}
	m.check(t)
	if got := len(m.writes); got < burst+59 || got > burst+60 || m.dropped != pods-got {
		t.Errorf("%d writes, %d dropped; want 84 or 85 writes", got, m.dropped)
	}
}

// TestSeriesLimit: the number of series in memory is bounded, even if each pod gets an Event.
func TestSeriesLimit(t *testing.T) {
	m := newModel()
	for i := range 3 * maxSeries {
		m.record(podKey(i, CPUsRefused), "a")
		m.write("")
		m.now = m.now.Add(perEvent)
	}
	m.check(t)
	if len(m.all) != maxSeries || len(m.writes) != 3*maxSeries {
		t.Errorf("%d series, %d writes; want %d and %d", len(m.all), len(m.writes), maxSeries, 3*maxSeries)
	}
}

// TestSeries: repetitions within 10 minutes are written together, to the same Event if its text is the same. An Event that has
// expired on the API server, or in memory, is created again.
func TestSeries(t *testing.T) {
	m := newModel()
	k := podKey(0, CPUsRefused)
	start := m.now
	// wantWrite fails the test unless the next write has these values. name is the name of the Event to update, or "".
	wantWrite := func(note, name string, count int, since time.Duration) {
		t.Helper()
		s, wait := m.next(m.now)
		if s == nil {
			t.Fatalf("no write for %v", wait)
		}
		d := m.draft(s)
		if d.note != note || d.name != name || d.count != count || d.since.Sub(start) != since {
			t.Errorf("got %q to Event %q, %d occurrences since %v; want %q to %q, %d since %v", d.note, d.name, d.count, d.since.Sub(start), note, name, count, since)
		}
		m.done(d, "event", m.now)
	}
	wantNone := func(want time.Duration) {
		t.Helper()
		if s, wait := m.next(m.now); s != nil || wait != want {
			t.Errorf("got a write %v in %v, want none for %v", s, wait, want)
		}
	}
	after := func(d time.Duration) { m.now = m.now.Add(d) }
	m.record(k, "a")
	wantWrite("a", "", 1, 0)
	wantNone(seriesTime)
	after(time.Minute)
	m.record(k, "a")
	m.record(k, "a")
	wantNone(interval - time.Minute)
	after(interval - time.Minute)
	wantWrite("a", "event", 3, time.Minute)
	after(interval)
	m.record(k, "b") // another text
	wantWrite("b", "", 1, 2*interval)
	after(interval)
	m.record(k, "b")
	if s, _ := m.next(m.now); s != nil {
		s.missing()
	}
	wantWrite("b", "", 1, 3*interval)
	after(seriesTime)
	m.record(k, "b")
	wantWrite("b", "", 1, 3*interval+seriesTime)
}

// TestQueueIsFull: while the API server accepts no Events, the queue has the newest Events. Events that are older than an hour
// are dropped.
func TestQueueIsFull(t *testing.T) {
	m := newModel()
	const pods = 100
	for i := range pods {
		m.record(podKey(i, DowngradedNoLimit), "a")
		m.write("lost")
		m.now = m.now.Add(10 * time.Second)
	}
	m.check(t)
	if first := m.queue[0]; len(m.queue) != burst || m.dropped != pods-burst || first.key != podKey(0, DowngradedNoLimit) && first.key != podKey(pods-burst, DowngradedNoLimit) {
		t.Errorf("%d queued, %d dropped, the first is %v", len(m.queue), m.dropped, first.key)
	}
	m.now = m.now.Add(seriesTime)
	if m.write(""); len(m.queue) != 0 || m.dropped != pods || len(m.writes) != 0 {
		t.Errorf("after an hour: %d queued, %d dropped, %d writes", len(m.queue), m.dropped, len(m.writes))
	}
	m.check(t)
}

// TestOutageWithoutCredit: if the API server fails when the credit is used up, the newest Event is in the queue, although the
// queue is not full. The rate limits hold when the API server answers again.
func TestOutageWithoutCredit(t *testing.T) {
	m := newModel()
	const pods = 900
	for i := range pods {
		m.record(podKey(i, DowngradedNoLimit), "a")
		if i < pods/3 {
			m.write("")
		} else {
			m.write("lost")
		}
		m.now = m.now.Add(15 * time.Millisecond)
	}
	m.check(t)
	if n := len(m.queue); n < 2 || n >= burst || m.queue[n-1].key != podKey(pods-1, DowngradedNoLimit) {
		t.Errorf("%d queued Events %v, want the last to be that of the last pod", n, m.queue)
	}
	for m.write("") {
	}
	m.check(t)
	m.checkWrites(t)
}
