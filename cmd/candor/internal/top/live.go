package top

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpumap"
)

// Live shows figures on the terminal until the user quits or ctx ends, and then restores the terminal. read is a function such as
// Source.Read.
func Live(ctx context.Context, read func(inside string) (*Reading, error), u *UI, ascii bool) error {
	first, err := read("")
	if err != nil {
		return err
	}
	screen, err := tcell.NewScreen(tcell.OptNegotiation(false))
	if err != nil {
		return fmt.Errorf("the terminal: %w (--once prints one reading without one)", err)
	}
	l := &live{read: read, ui: u, ascii: ascii, screen: screen, before: first, last: first}
	return l.run(ctx)
}

// live is the state of a running Live: the two latest samples and the figures between them.
type live struct {
	read   func(inside string) (*Reading, error)
	ui     *UI
	ascii  bool
	screen tcell.Screen

	before, last *Reading
	figures      *Figures
}

func (l *live) run(ctx context.Context) error {
	if err := l.screen.Init(); err != nil {
		return fmt.Errorf("the terminal: %w (--once prints one reading without one)", err)
	}
	defer l.screen.Fini() // also in a panic, so that its message is readable
	l.compare()
	return l.loop(ctx)
}

func (l *live) compare() { l.figures = Between(l.before, l.last, l.ui.Inside) }

// firstWait is the time until the second sample: short, so that the first figures appear soon.
const firstWait = 250 * time.Millisecond

func (l *live) loop(ctx context.Context) error {
	timer := time.NewTimer(min(firstWait, l.ui.Interval))
	defer timer.Stop()
	for {
		l.show()
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			if !l.ui.Paused {
				l.next()
			}
			timer.Reset(l.ui.Interval)
		case event, open := <-l.screen.EventQ():
			if !open {
				return nil
			}
			interval, inside := l.ui.Interval, l.ui.Inside
			if quit, err := l.handle(event); quit || err != nil {
				return err
			}
			if l.ui.Interval != interval {
				timer.Reset(l.ui.Interval)
			}
			if l.ui.Inside != inside {
				l.last.readThreads(l.ui.Inside)
				l.compare()
			}
		}
	}
}

// next takes a sample and computes the figures. If the sample fails, the figures stay and the screen shows the error.
func (l *live) next() {
	next, err := l.read(l.ui.Inside)
	if err != nil {
		l.ui.Failed = err.Error()
		return
	}
	l.ui.Failed = ""
	l.before, l.last = l.last, next
	l.compare()
}

// keyNames maps keys without a printable character to their names in UI.Press.
var keyNames = map[tcell.Key]string{
	tcell.KeyEnter: keyEnter, tcell.KeyEsc: keyEsc, tcell.KeyBackspace: keyBackspace, tcell.KeyBackspace2: keyBackspace,
	tcell.KeyUp: keyUp, tcell.KeyDown: keyDown, tcell.KeyHome: keyHome, tcell.KeyEnd: keyEnd,
	tcell.KeyPgUp: keyPageUp, tcell.KeyPgDn: keyPageDown, tcell.KeyCtrlC: keyInterrupt,
}

func (l *live) handle(event tcell.Event) (quit bool, err error) {
	switch e := event.(type) {
	case *tcell.EventError:
		return true, e
	case *tcell.EventKey:
		if e.Key() == tcell.KeyCtrlZ {
			return false, l.stop()
		}
		key := keyNames[e.Key()]
		if e.Key() == tcell.KeyRune {
			key = e.Str()
		}
		_, rows := l.screen.Size()
		return l.ui.Press(key, l.figures, max(1, rows/2)), nil
	}
	return false, nil // a resize: the loop redraws the screen
}

// stop suspends this program, as Ctrl-Z does on a terminal in its normal mode, until the shell resumes the program.
func (l *live) stop() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := l.screen.Suspend()
	if err == nil { // a signal to the process instead of this thread could stop the process after Resume
		err = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTSTP)
	}
	if err == nil {
		err = l.screen.Resume()
	}
	return err
}

// show draws the figures in the current size of the window. If the size changes meanwhile, the resize event redraws the window.
func (l *live) show() {
	columns, rows := l.screen.Size()
	l.screen.Clear()
	for y, line := range l.ui.Draw(l.figures, Size{columns, rows, l.ascii}) {
		x := 0
		for _, span := range line {
			l.screen.PutStrStyled(x, y, span.Text, span.cell())
			x += cpumap.Width(span.Text)
		}
	}
	l.screen.Show()
}

// cell converts the style to a style of tcell.
func (s Style) cell() tcell.Style {
	style := tcell.StyleDefault.Bold(s.Bold).Dim(s.Dim).Reverse(s.Reverse)
	if s.Back != 0 {
		style = style.Background(color.PaletteColor(s.Back)).Foreground(color.PaletteColor(16))
	}
	return style
}
