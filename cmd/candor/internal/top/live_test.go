package top

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"

	"github.com/candor-project/candor/hybrid"
)

// stage runs the live view on a mock terminal.
type stage struct {
	testing.TB
	vt.MockTerm
	ended chan any // result: an error, nil, or the value of a panic
}

// play starts the live view on a mock terminal. read returns each next reading.
func play(t testing.TB, columns, rows int, first *Reading, read func(string) (*Reading, error)) *stage {
	t.Helper()
	s := &stage{t, vt.NewMockTerm(vt.MockOptSize{X: vt.Col(columns), Y: vt.Row(rows)}), make(chan any, 1)}
	screen, err := tcell.NewTerminfoScreenFromTty(s.MockTerm, tcell.OptNegotiation(false))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	l := &live{read: read, ui: &UI{Sort: ByUse, Interval: MinInterval}, screen: screen, before: first, last: first}
	go func() {
		defer func() {
			if p := recover(); p != nil {
				s.ended <- p
			}
		}()
		s.ended <- l.run(ctx)
	}()
	return s
}

// text returns the text on the terminal.
func (s *stage) text() string {
	var b strings.Builder
	size := s.Backend().GetSize()
	for y := range size.Y {
		for x := range size.X {
			if c := s.GetCell(vt.Coord{X: x, Y: y}); c.C != "" {
				b.WriteString(c.C)
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// shows waits until the terminal shows all words.
func (s *stage) shows(words ...string) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		text, missing := s.text(), ""
		for _, word := range words {
			if !strings.Contains(text, word) {
				missing = word
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("never shows %q:\n%s", missing, text)
		}
	}
}

func (s *stage) keys(text string) { s.SendRaw([]byte(text)) }

// end waits for the end of the view and checks that the terminal is restored. It returns the result of the view.
func (s *stage) end() any {
	s.Helper()
	select {
	case got := <-s.ended:
		if mode := s.Backend().GetPrivateMode(vt.PmAltScreen); mode == vt.ModeOn {
			s.Error("the alternate screen is still active")
		}
		return got
	case <-time.After(time.Minute):
		s.Fatalf("does not end:\n%s", s.text())
		return nil
	}
}

// running returns a world and a read function that advances the time by a second.
func running(t testing.TB) (w *world, read func(string) (*Reading, error)) {
	w = newWorld(t, "core:4 pu:1")
	w.add("default/web-0/app", hybrid.Sensitive, 1500)
	w.add("log", hybrid.Flexible, 500)
	return w, func(inside string) (*Reading, error) {
		w.pass(second)
		w.Containers[0].uses(1200*time.Millisecond, 10, 3)
		return w.read(inside)
	}
}

func TestLive(t *testing.T) {
	w, read := running(t)
	s := play(t, 80, 24, w.now(), read)
	s.shows("default/web-0/app", "1.20", "80%", "log", "q quit")
	s.keys("/lo")
	s.shows("filter: lo")
	s.keys("\r")
	s.shows("filter lo")
	if strings.Contains(s.text(), "default/web-0/app") {
		t.Errorf("the filter does not hide default/web-0/app:\n%s", s.text())
	}
	s.keys("\r")
	s.shows("THREAD", "class  flexible")
	s.SetSize(vt.Coord{X: 20, Y: 5})
	s.shows("class  flexible, bes\n")
	s.SetSize(vt.Coord{X: 300, Y: 80})
	s.shows("+- speed")
	s.keys("?")
	s.shows("the other way round")
	s.keys("?")
	s.shows("THREAD")
	s.keys("q")
	if got := s.end(); got != nil {
		t.Errorf("ended with %v", got)
	}
}

// larger is a screen that reports a larger size than its window has, like a window that has just shrunk.
type larger struct{ tcell.Screen }

func (larger) Size() (columns, rows int) { return 300, 80 }

// TestLiveShrinks: the drawing ends if the window shrinks meanwhile.
func TestLiveShrinks(t *testing.T) {
	w, read := running(t)
	before := w.now()
	after, _ := read("")
	for _, size := range []vt.Coord{{X: 20, Y: 5}, {X: 1, Y: 1}} {
		screen, err := tcell.NewTerminfoScreenFromTty(vt.NewMockTerm(vt.MockOptSize(size)), tcell.OptNegotiation(false))
		if err == nil {
			err = screen.Init()
		}
		if err != nil {
			t.Fatal(err)
		}
		l := &live{ui: &UI{Sort: ByUse, Interval: second}, screen: larger{screen}, before: before, last: after}
		l.compare()
		shown := make(chan bool)
		go func() { l.show(); close(shown) }()
		select {
		case <-shown:
		case <-time.After(time.Minute):
			t.Fatalf("the drawing does not end in a window of %v", size)
		}
		screen.Fini()
	}
}

// TestLiveFails: the error of a failed reading is shown, with the figures of the previous reading. It
// disappears after a successful reading.
func TestLiveFails(t *testing.T) {
	w, read := running(t)
	var broken atomic.Bool
	s := play(t, 80, 24, w.now(), func(inside string) (*Reading, error) {
		if broken.Load() {
			return nil, errors.New("state: it is\ngone")
		}
		return read(inside)
	})
	s.shows("80%")
	broken.Store(true)
	s.shows(`state: it is\ngone`, "default/web-0/app")
	broken.Store(false)
	for deadline := time.Now().Add(time.Minute); strings.Contains(s.text(), "gone"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the error is still shown:\n%s", s.text())
		}
	}
	s.keys("\x03")
	if got := s.end(); got != nil {
		t.Errorf("ended with %v", got)
	}
}

// TestLivePanics: a panic restores the terminal first.
func TestLivePanics(t *testing.T) {
	w, _ := running(t)
	s := play(t, 80, 24, w.now(), func(string) (*Reading, error) { panic("oops") })
	if got := s.end(); got != "oops" {
		t.Errorf("ended with %v", got)
	}
}
