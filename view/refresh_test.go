package view

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// runRefresher starts a Refresher and ends it after the test.
func runRefresher(t testing.TB, o RefreshOptions) *Refresher {
	t.Helper()
	r, err := NewRefresher(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Error("Run does not return")
		}
		r.Close()
	})
	return r
}

// A counterFile is a file with the number of its refreshes.
type counterFile struct {
	*os.File
	refreshes atomic.Int64
	fails     atomic.Bool
}

// add adds a file to a Refresher until the end of the test.
func (c *counterFile) add(t testing.TB, r *Refresher, name string) {
	t.Helper()
	if err := r.Add(name, []*os.File{c.File}, c.refresh); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Remove(name) })
}

var errRefresh = errors.New("refresh failed")

func newCounterFile(t testing.TB) *counterFile {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	c := &counterFile{File: f}
	if _, err := f.WriteAt([]byte("00000000\n"), 0); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *counterFile) refresh(bool) error {
	if c.fails.Load() {
		return errRefresh
	}
	_, err := c.WriteAt(fmt.Appendf(nil, "%08d\n", c.refreshes.Add(1)), 0)
	return err
}

// readCounter opens the file at path and returns its number of refreshes.
func readCounter(t testing.TB, path string) (n int64) {
	t.Helper()
	text, err := os.ReadFile(path)
	n, parseErr := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || parseErr != nil || len(text) != 9 {
		t.Errorf("%q, %v, %v", text, err, parseErr)
	}
	return n
}

// eventually waits until condition holds. After a minute it fails the test.
func eventually(t testing.TB, event string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", event)
		}
	}
}

// checkEmpty fails the test if a Refresher has views.
func checkEmpty(t *testing.T, r *Refresher) {
	t.Helper()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.views) != 0 || len(r.watches) != 0 {
		t.Errorf("%d views and %d watches remain", len(r.views), len(r.watches))
	}
}

// TestRefreshActive: while a program reads, the file is refreshed once per period. A single read leads to a single refresh.
func TestRefreshActive(t *testing.T) {
	const active = 100 * time.Millisecond
	r := runRefresher(t, RefreshOptions{Active: active, Idle: -1, withoutPause: true})
	c := newCounterFile(t)
	c.add(t, r, "web")
	for round := range int64(5) {
		readCounter(t, c.Name())
		eventually(t, "a read leads to a refresh", func() bool { return c.refreshes.Load() == round+1 })
	}
	time.Sleep(5 * active)
	if n := c.refreshes.Load(); n != 5 {
		t.Errorf("%d refreshes without readers", n-5)
	}
	start := time.Now()
	for time.Since(start) < 10*active {
		readCounter(t, c.Name())
		time.Sleep(active / 50)
	}
	periods := int64(time.Since(start)/active) + 1
	if n := c.refreshes.Load() - 5; n < 3 || n > periods {
		t.Errorf("%d refreshes in %d periods", n, periods)
	}
}

// TestRefreshOpenFile: a program that keeps the file open gets refreshes too.
func TestRefreshOpenFile(t *testing.T) {
	r := runRefresher(t, RefreshOptions{Active: time.Millisecond, Idle: -1})
	c := newCounterFile(t)
	c.add(t, r, "web")
	f, err := os.Open(c.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for round := range int64(20) {
		if _, err := f.ReadAt(make([]byte, 9), 0); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a read leads to a refresh", func() bool { return c.refreshes.Load() > round })
	}
}

// TestRefreshThroughMount: reads through a read-only bind mount lead to refreshes, also after the file was removed.
func TestRefreshThroughMount(t *testing.T) {
	skipUnlessRoot(t)
	r := runRefresher(t, RefreshOptions{Active: time.Millisecond, Idle: -1})
	c := newCounterFile(t)
	target := filepath.Join(t.TempDir(), "mounted")
	if err := os.WriteFile(target, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(c.Name(), target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(target, unix.MNT_DETACH)
	if err := makeReadOnly(target); err != nil {
		t.Fatal(err)
	}
	c.add(t, r, "web")
	for round := range int64(6) {
		if round == 3 {
			if err := os.Remove(c.Name()); err != nil {
				t.Fatal(err)
			}
		}
		before := c.refreshes.Load()
		readCounter(t, target)
		eventually(t, "a read leads to a refresh", func() bool { return c.refreshes.Load() > before })
		eventually(t, "the mount shows the refresh", func() bool { return readCounter(t, target) > before })
	}
}

// TestRefreshHotReader: a program that reads without a pause leads to one refresh per period, and wakes the Refresher a few times only.
func TestRefreshHotReader(t *testing.T) {
	const active = 200 * time.Millisecond
	r := runRefresher(t, RefreshOptions{Active: active, Idle: -1, withoutPause: true})
	c := newCounterFile(t)
	c.add(t, r, "web")
	start := time.Now()
	reads := int64(0)
	for ; time.Since(start) < 5*active; reads++ {
		readCounter(t, c.Name())
	}
	periods := int64(time.Since(start)/active) + 1
	r.mutex.Lock()
	wakeups := int64(r.wakeups)
	r.mutex.Unlock()
	if n := c.refreshes.Load(); n < 2 || n > periods || wakeups > 4*periods {
		t.Errorf("%d refreshes and %d wake-ups in %d periods", n, wakeups, periods)
	}
	t.Logf("%d reads: %d refreshes, %d wake-ups", reads, c.refreshes.Load(), wakeups)
}

// TestRefreshIdle: without readers, a file is refreshed once per idle period, or never.
func TestRefreshIdle(t *testing.T) {
	for name, test := range map[string]struct {
		idle     time.Duration
		min, max int64
	}{"bounded age": {100 * time.Millisecond, 2, 11}, "no refresh": {-1, 0, 0}} {
		t.Run(name, func(t *testing.T) {
			r := runRefresher(t, RefreshOptions{Idle: test.idle})
			var files []*counterFile
			for i := range 20 {
				c := newCounterFile(t)
				files = append(files, c)
				c.add(t, r, fmt.Sprint(i))
			}
			wakeups := func() int64 {
				r.mutex.Lock()
				defer r.mutex.Unlock()
				return int64(r.wakeups)
			}
			before := wakeups()
			if test.min == 0 {
				eventually(t, "Run has seen the views", func() bool {
					before = wakeups()
					time.Sleep(200 * time.Millisecond)
					return wakeups() == before
				})
			}
			if test.min > 0 {
				eventually(t, "the views are refreshed", func() bool { return files[0].refreshes.Load() >= test.min })
			} else {
				time.Sleep(time.Second)
			}
			n, more := files[0].refreshes.Load(), wakeups()-before
			if n < test.min || n > test.max {
				t.Errorf("%d refreshes", n)
			}
			if limit := n + int64(len(files)); more > limit || test.min == 0 && more > 0 { // Add wakes Run
				t.Errorf("%d wake-ups with %d refreshes", more, n)
			}
		})
	}
}

// TestRefreshErrors: a failed refresh is reported, and the next read leads to another attempt.
func TestRefreshErrors(t *testing.T) {
	var failed atomic.Int64
	r := runRefresher(t, RefreshOptions{Active: time.Millisecond, Idle: -1, OnError: func(name string, err error) {
		if name != "web" || !errors.Is(err, errRefresh) {
			t.Errorf("%s: %v", name, err)
		}
		failed.Add(1)
	}})
	c := newCounterFile(t)
	c.fails.Store(true)
	c.add(t, r, "web")
	for round := range int64(3) {
		readCounter(t, c.Name())
		eventually(t, "a failed refresh is reported", func() bool { return failed.Load() > round })
	}
	c.fails.Store(false)
	readCounter(t, c.Name())
	eventually(t, "the next refresh succeeds", func() bool { return c.refreshes.Load() > 0 })

	r.Remove("web")
	open, closed := newCounterFile(t), newCounterFile(t)
	closed.Close()
	if err := r.Add("closed", []*os.File{open.File, closed.File}, c.refresh); err == nil || !strings.Contains(err.Error(), "inotify") {
		t.Errorf("a closed file: %v", err)
	}
	checkEmpty(t, r)
}

// TestRefreshRemove: after Remove, no refresh runs or starts, while other goroutines read, add and remove views.
func TestRefreshRemove(t *testing.T) {
	r := runRefresher(t, RefreshOptions{Active: time.Microsecond, Idle: time.Millisecond})
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			name := fmt.Sprint(i)
			c := newCounterFile(t)
			for range 200 {
				var isRemoved atomic.Bool
				refresh := func(isRead bool) error {
					if isRemoved.Load() {
						t.Error("a refresh after Remove")
					}
					return c.refresh(isRead)
				}
				if err := r.Add(name, []*os.File{c.File}, refresh); err != nil {
					t.Error(err)
				}
				readCounter(t, c.Name())
				r.Remove(name)
				isRemoved.Store(true)
			}
		})
	}
	group.Wait()
	r.Remove("unknown")
	checkEmpty(t, r)
}

// TestRefreshReplace: the view that replaces a view of the same name is refreshed, and the replaced view is not.
func TestRefreshReplace(t *testing.T) {
	r := runRefresher(t, RefreshOptions{Active: time.Millisecond, Idle: -1})
	old, next := newCounterFile(t), newCounterFile(t)
	for _, c := range []*counterFile{old, next} {
		c.add(t, r, "web")
	}
	readCounter(t, old.Name())
	readCounter(t, next.Name())
	eventually(t, "the new view is refreshed", func() bool { return next.refreshes.Load() > 0 })
	if n := old.refreshes.Load(); n != 0 {
		t.Errorf("%d refreshes of the replaced view", n)
	}
}

// TestRefreshRestart: without a Refresher the files stay readable, and another Refresher goes on.
func TestRefreshRestart(t *testing.T) {
	c := newCounterFile(t)
	for round := range int64(20) {
		r, err := NewRefresher(RefreshOptions{Active: time.Millisecond, Idle: -1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		c.add(t, r, "web")
		readCounter(t, c.Name())
		eventually(t, "a read leads to a refresh", func() bool { return c.refreshes.Load() > round })
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		r.Close()
		if n := readCounter(t, c.Name()); n < round {
			t.Errorf("round %d: the file has %d", round, n)
		}
	}
	r, err := NewRefresher(RefreshOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := r.Run(context.Background()); err == nil {
		t.Error("a closed Refresher runs")
	}
	if err := r.Add("web", []*os.File{c.File}, c.refresh); err == nil {
		t.Error("a closed Refresher takes a view")
	}
}

// TestRefreshMemory: the memory view of a group follows the group's use.
func TestRefreshMemory(t *testing.T) {
	tree, group := fixture(t, true, map[string]string{
		"memory.stat": "anon 4096\n", "memory.max": "536870912\n", "memory.high": "max\n", "memory.current": "100000000\n", "memory.swap.max": "0\n",
		"memory.swap.current": "0\n",
	})
	m, err := tree.ReadMemory("/web")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "view")
	f, err := OpenMemory(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	machine := MachineMemory{Total: 8 * gib}
	refresh := func() error {
		m, err := tree.ReadMemory("/web")
		if err != nil {
			return err
		}
		return f.Write(m, machine)
	}
	if err := refresh(); err != nil {
		t.Fatal(err)
	}
	r := runRefresher(t, RefreshOptions{Active: time.Millisecond, Idle: -1})
	if err := r.Add("web", f.Files(), func(bool) error { return refresh() }); err != nil {
		t.Fatal(err)
	}
	defer r.Remove("web")
	for _, usage := range []int64{200_000_000, 300_000_000, 536_870_912} {
		if err := os.WriteFile(filepath.Join(group, "new"), fmt.Appendf(nil, "%d\n", usage), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(group, "new"), filepath.Join(group, "memory.current")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "meminfo shows the use", func() bool {
			text, err := os.ReadFile(filepath.Join(dir, meminfoName))
			v, parseErr := parseMeminfo(text)
			if err != nil || parseErr != nil || v["MemTotal"] != m.Bound.Limit/1024 {
				t.Fatalf("%q, %v, %v", text, err, parseErr)
			}
			return v["MemFree"] == (m.Bound.Limit-usage)/1024
		})
	}
}
