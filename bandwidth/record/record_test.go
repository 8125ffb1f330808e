package record

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/interference"
)

const ms = time.Millisecond

// A moment is the total CPU use of each group at a point in time.
type moment struct {
	at    time.Duration
	total map[int]cgroup.Usage
}

// all reads a recording and returns the total CPU use of each group at each tick.
func all(in io.Reader) (r *Reader, ticks []moment, err error) {
	if r, err = NewReader(in); err != nil {
		return r, nil, err
	}
	total := map[int]counts{}
	for {
		tick, err := r.Next()
		if err != nil {
			return r, ticks, err
		}
		for _, u := range tick.Uses {
			sum := total[u.Group]
			for i, n := range countsOf(u.Usage) {
				sum[i] += n
			}
			total[u.Group] = sum
		}
		now := moment{tick.At, map[int]cgroup.Usage{}}
		for g, c := range total {
			now.total[g] = c.usage()
		}
		ticks = append(ticks, now)
	}
}

// TestRoundTrip: a reader returns the writer's input at every tick. It reads a truncated recording up to the
// last complete block.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var file bytes.Buffer
		want := Header{Interval: time.Duration(rapid.IntRange(1, 10000).Draw(t, "interval")) * ms, Start: time.Unix(1e9, 0).UTC(), CPUs: 4, Model: "Z80", Kernel: "6.18.5"}
		w, err := NewWriter(&file, want)
		if err != nil {
			t.Fatal(err)
		}
		written := writeRandom(t, w, want.Interval)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		whole := file.Bytes()
		r, ticks, err := all(bytes.NewReader(whole))
		if err != io.EOF || r.Header != want {
			t.Fatalf("%v, %+v", err, r.Header)
		}
		compare(t, written, ticks)
		cut := whole[:rapid.IntRange(1, len(whole)-1).Draw(t, "cut")]
		if _, before, err := all(bytes.NewReader(cut)); !errors.Is(err, ErrCut) || len(before) > len(ticks) || len(before) > 0 && !reflect.DeepEqual(before, ticks[:len(before)]) {
			t.Fatalf("cut to %d of %d bytes: %v, %v", len(cut), len(whole), err, before)
		}
	})
}

// writeRandom writes a random history with w and returns it.
func writeRandom(t *rapid.T, w *Writer, interval time.Duration) (written []moment) {
	var now []cgroup.Usage
	var first []cgroup.Usage
	var due, at time.Duration
	for range rapid.IntRange(0, 60).Draw(t, "acts") {
		switch rapid.IntRange(0, 9).Draw(t, "act") {
		case 0:
			base := cgroup.Usage{CPU: time.Duration(rapid.IntRange(0, 1e6).Draw(t, "before")) * time.Microsecond, Periods: 7}
			if _, err := w.Group(Group{Name: "/a/b", Quota: 50 * ms, Period: 100 * ms}, base); err != nil {
				t.Fatal(err)
			}
			now, first = append(now, base), append(first, base)
		case 1:
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		case 2:
			w.Cost(Cost{CPU: at / 100, Missed: 3})
		default:
			due += interval * time.Duration(rapid.SampledFrom([]int{1, 1, 1, 4}).Draw(t, "intervals"))
			at = due + time.Duration(rapid.Int64Range(0, interval.Microseconds()-1).Draw(t, "late"))*time.Microsecond
			var readings []Reading
			moment := moment{at, map[int]cgroup.Usage{}}
			for g := range now {
				if rapid.Bool().Draw(t, "busy") {
					now[g].CPU += time.Duration(rapid.IntRange(0, 1e6).Draw(t, "CPU")) * time.Microsecond
					now[g].Throttled += rapid.Uint64Range(0, 2).Draw(t, "throttled")
					now[g].ThrottledTime += time.Duration(rapid.IntRange(0, 300).Draw(t, "throttled time")) * ms
				}
				readings = append(readings, Reading{g, now[g]})
				moment.total[g] = cgroup.Usage{CPU: now[g].CPU - first[g].CPU, Throttled: now[g].Throttled, ThrottledTime: now[g].ThrottledTime}
			}
			w.Tick(at, readings)
			written = append(written, moment)
		}
	}
	return written
}

// compare compares the read values with the written values. The time of a tick is exact if a group used CPU time in
// it.
func compare(t *rapid.T, written, ticks []moment) {
	last := map[int]cgroup.Usage{}
	i := 0
	for _, moment := range written {
		changed := false
		for g, u := range moment.total {
			changed = changed || u != last[g]
		}
		last = moment.total
		if !changed {
			continue
		}
		for i < len(ticks) && ticks[i].at < moment.at {
			i++
		}
		if i == len(ticks) || ticks[i].at != moment.at {
			t.Fatalf("no tick at %v", moment.at)
		}
		for i+1 < len(ticks) && ticks[i+1].at == moment.at {
			i++ // several ticks at the same time
		}
	}
	if len(ticks) == 0 {
		return
	}
	for g, u := range last {
		if got := ticks[len(ticks)-1].total[g]; got != u {
			t.Fatalf("group %d: read %+v in all, want %+v", g, got, u)
		}
	}
}

// FuzzReader: for any file, the reader succeeds or returns ErrFormat or ErrCut.
func FuzzReader(f *testing.F) {
	var file bytes.Buffer
	w, err := NewWriter(&file, Header{Interval: 10 * ms, CPUs: 2, Kernel: "6.18"})
	if err != nil {
		f.Fatal(err)
	}
	w.Group(Group{Name: "/web", Quota: 50 * ms, Period: 100 * ms}, cgroup.Usage{})
	w.Tick(10*ms, []Reading{{0, cgroup.Usage{CPU: 4 * ms, Periods: 1}}})
	w.Tick(20*ms, []Reading{{0, cgroup.Usage{CPU: 4 * ms, Periods: 1}}})
	w.Ended(0)
	w.Cost(Cost{ms, 2})
	if err := w.Interference(foreign()); err != nil {
		f.Fatal(err)
	}
	w.Close()
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		fixChecksums(data)
		r, ticks, err := all(bytes.NewReader(data))
		if err != io.EOF && !errors.Is(err, ErrCut) && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
		for i := range ticks {
			if ticks[i].at < 0 || i > 0 && ticks[i].at < ticks[i-1].at || ticks[i].at > maxSpan {
				t.Fatalf("tick %d at %v", i, ticks[i].at)
			}
		}
		if err == nil && r.Interval == 0 {
			t.Fatal("no interval")
		}
	})
}

// A fake is a source with a limited number of readings. Then it reports that the group was removed.
type fake struct {
	left   int
	each   cgroup.Usage
	total  cgroup.Usage
	closed *int
}

func (f *fake) Read() (cgroup.Usage, error) {
	if f.left--; f.left < 0 {
		return cgroup.Usage{}, &fs.PathError{Op: "read", Path: "cpu.stat", Err: fs.ErrNotExist}
	}
	f.total.CPU += f.each.CPU
	f.total.Periods += f.each.Periods
	return f.total, nil
}

func (f *fake) Close() { *f.closed++ }

// TestEndedGroups: a recording continues when a group ends, and ends with the last group.
func TestEndedGroups(t *testing.T) {
	var file bytes.Buffer
	r, err := New(&file, ms)
	if err != nil {
		t.Fatal(err)
	}
	closed := 0
	for _, left := range []int{4, 10} {
		if err := r.Add(Group{Name: "g"}, &fake{left: left, each: cgroup.Usage{CPU: ms, Periods: 1}, closed: &closed}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Run(context.Background(), 0); !errors.Is(err, ErrAllEnded) || closed != 2 {
		t.Errorf("%v, %d sources closed", err, closed)
	}
	_, ticks, err := all(bytes.NewReader(file.Bytes()))
	if err != io.EOF || len(ticks) == 0 {
		t.Fatal(err)
	}
	last := ticks[len(ticks)-1].total // the first reading of a group does not count
	if last[0].CPU != 3*ms || last[1].CPU != 9*ms || last[1].Periods != 9 {
		t.Errorf("%+v", last)
	}
}

// foreign returns the use of the groups' CPUs by another process.
func foreign() *interference.Report {
	return &interference.Report{CPUs: 2, UseMilli: 460, Largest: &interference.Process{PID: 4711, Name: "make", UseMilli: 400}}
}

// TestInterference: a recording has the use of its CPUs by other processes.
func TestInterference(t *testing.T) {
	for _, want := range []*interference.Report{foreign(), nil} {
		var file bytes.Buffer
		r, err := New(&file, ms)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Add(Group{Name: "g"}, &fake{left: 5, each: cgroup.Usage{CPU: ms}, closed: new(int)}); err != nil {
			t.Fatal(err)
		}
		r.OnEnd = func() *interference.Report { return want }
		if err := r.Run(context.Background(), 0); !errors.Is(err, ErrAllEnded) {
			t.Errorf("%+v: %v", want, err)
		}
		again, ticks, err := all(&file)
		if err != io.EOF || len(ticks) == 0 || !reflect.DeepEqual(again.Interference, want) {
			t.Errorf("%+v, %d readings, %v; want %+v", again.Interference, len(ticks), err, want)
		}
	}
}

// A fullAfter is a full disk after some writes.
type fullAfter struct{ left int }

func (f *fullAfter) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, unix.ENOSPC
	}
	return len(p), nil
}

// TestFullAtEnd: if the end of the recording cannot be written, Run does not report a complete recording.
func TestFullAtEnd(t *testing.T) {
	disk := &fullAfter{left: 100}
	r, err := New(disk, ms)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Add(Group{Name: "g"}, &fake{left: 5, each: cgroup.Usage{CPU: ms}, closed: new(int)}); err != nil {
		t.Fatal(err)
	}
	disk.left = 0
	if err := r.Run(context.Background(), 0); !errors.Is(err, unix.ENOSPC) || errors.Is(err, ErrAllEnded) {
		t.Errorf("%v, want ENOSPC only", err)
	}
}

// TestWatchedGroups: the CPU time of a group within another target counts once.
func TestWatchedGroups(t *testing.T) {
	g := Groups{}
	for _, path := range []string{"/pod", "/pod/web", "/podium"} {
		watched := &watchedGroup{Source: &fake{left: 3, each: cgroup.Usage{CPU: 10 * ms}}, path: path}
		for range 4 { // the last reading fails
			watched.Read()
		}
		g.watched = append(g.watched, watched)
	}
	if got := g.used(); got != 40*ms {
		t.Errorf("%v, want 20ms of /pod and of /podium", got)
	}
	for path, want := range map[string]bool{"/a/b": true, "/a": false, "/ab": false, "/": false} {
		if isBelow(path, "/a") != want {
			t.Errorf("%s below /a: %t", path, !want)
		}
	}
}

// TestMovedGroups: a target with other CPUs than at the start is moved. A target that has ended, or whose CPUs were unknown, is not.
func TestMovedGroups(t *testing.T) {
	for _, c := range []struct {
		before, after cpuset.Set
		err           error
		want          bool
	}{
		{before: cpuset.Of(0, 1), after: cpuset.Of(0, 1)},
		{before: cpuset.Of(0, 1), after: cpuset.Of(2, 3), want: true},
		{before: cpuset.Of(0, 1), after: cpuset.Of(0), want: true},
		{before: cpuset.Of(0, 1), err: cgroup.ErrNoGroup},
		{after: cpuset.Of(0)},
	} {
		g := Groups{watched: []*watchedGroup{{path: "/web", cpus: c.before}}}
		if got := g.isMoved(func(string) (cpuset.Set, error) { return c.after, c.err }); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// TestIdleGroupIsSmall: an idle group takes almost no space in the recording.
func TestIdleGroupIsSmall(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, Header{Interval: 10 * ms})
	if err != nil {
		t.Fatal(err)
	}
	number, err := w.Group(Group{Name: "/web"}, cgroup.Usage{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 360000 {
		w.Tick(time.Duration(n+1)*10*ms, []Reading{{number, cgroup.Usage{}}})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ticks, err := all(bytes.NewReader(file.Bytes())); err != io.EOF || ticks[len(ticks)-1].at != time.Hour || file.Len() > 200 {
		t.Errorf("%v, an hour takes %d bytes and ends at %v", err, file.Len(), ticks[len(ticks)-1].at)
	}
}

// TestFull: the writer refuses long names and too many groups, and splits long blocks, because a reader
// refuses them.
func TestFull(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, Header{Interval: 10 * ms})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Group(Group{Name: strings.Repeat("x", maxText)}, cgroup.Usage{}); err == nil || len(err.Error()) > 200 {
		t.Errorf("a long name: %v", err)
	}
	readings := make([]Reading, maxGroups)
	for i := range maxGroups {
		if readings[i].Group, err = w.Group(Group{Name: "/kubepods/burstable/pod" + strings.Repeat("0", 60)}, cgroup.Usage{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Group(Group{Name: "/one/more"}, cgroup.Usage{}); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	for at := 10 * ms; at <= 100*ms; at += 10 * ms { // within a second
		for i := range readings {
			readings[i].CPU += time.Hour
			readings[i].ThrottledTime += time.Hour
		}
		w.Tick(at, readings)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(&file)
	ticks, used := 0, time.Duration(0)
	for err == nil {
		var tick *Tick
		if tick, err = r.Next(); err == nil {
			ticks++
			used += tick.Uses[maxGroups-1].CPU
		}
	}
	if err != io.EOF || len(r.Groups) != maxGroups || ticks != 10 || used != 10*time.Hour {
		t.Errorf("%v, %d groups, %d readings, %v", err, len(r.Groups), ticks, used)
	}
}

// TestEnclosing: a recording ends with the last requested group, even if a group above, which was not
// requested, still exists.
func TestEnclosing(t *testing.T) {
	r, err := New(io.Discard, ms)
	if err != nil {
		t.Fatal(err)
	}
	closed := 0
	for _, g := range []Group{{Name: "/pod", Encloses: true}, {Name: "/pod/web", Above: "/pod"}} {
		left := 3
		if g.Encloses {
			left = 1 << 30
		}
		if err := r.Add(g, &fake{left: left, closed: &closed}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Run(context.Background(), time.Minute); !errors.Is(err, ErrAllEnded) || closed != 2 {
		t.Errorf("%v, %d sources closed", err, closed)
	}
}

// TestDamaged: the reader refuses invalid records in blocks with correct checksums.
func TestDamaged(t *testing.T) {
	for name, record := range map[string][]byte{
		"unknown kind":         {'?'},
		"an unknown group":     {kindTick, 0, 3, 2, 0, 0},
		"descending groups":    {kindTick, 0, 2, 1, 0, 0, 0},
		"a group twice":        {kindTick, 0, 2, 1, 0, 1, 0},
		"unknown counts":       {kindTick, 0, 1, 0, 0x40},
		"time goes back":       {kindTick, 0xff, 0xff, 0x7f, 0},
		"the end of no group":  {kindEnded, 2},
		"record after the end": {kindEnd, kindIdle, 1},
		"a number without end": {kindIdle, 0x80},
		"a text without end":   {kindGroup, 100, '{'},
		"no JSON":              {kindGroup, 1, '{'},
		"no interference":      append([]byte{kindForeign, 2}, "{}"...),
	} {
		var file bytes.Buffer
		w, err := NewWriter(&file, Header{Interval: ms})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := w.Group(Group{Name: "g"}, cgroup.Usage{}); err != nil {
				t.Fatal(err)
			}
		}
		w.buf = append(w.buf, record...)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := all(&file); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoRecording: NewReader refuses files that are no recordings, and CheckInterval refuses invalid
// intervals.
func TestNoRecording(t *testing.T) {
	for text, want := range map[string]error{
		"":                 ErrCut,
		"candor usage 2\n": ErrFormat,
		"candor trace 1\n": ErrFormat,
		"candor us":        ErrCut,
		"candor usage 1\n": ErrCut,
		"candor usage 1\n\x00\x00\x00\x00\x00\x00\x00\x00": ErrFormat,
	} {
		if _, err := NewReader(bytes.NewReader([]byte(text))); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	for _, d := range []time.Duration{0, ms - 1, 10*time.Second + ms, 1500 * time.Nanosecond * 1001} {
		if CheckInterval(d) == nil {
			t.Errorf("an interval of %v is taken", d)
		}
	}
}
