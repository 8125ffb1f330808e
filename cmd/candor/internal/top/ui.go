package top

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A UI holds the user's settings and the state of the screen.
type UI struct {
	Sort     Sort
	Reverse  bool
	Filter   string // text that the name, ID, class or state of a listed container contains
	Selected string // ID of the container under the cursor
	Inside   string // ID of the opened container, whose details replace the list; "": none
	Interval time.Duration
	Paused   bool
	Help     bool
	Failed   string // error of the last sample, or ""

	isTyping     bool // the user is typing the filter
	threadCursor int  // index of the thread under the cursor
}

// A Sort is an order of containers. Its value is the key that chooses the order.
type Sort byte

// Orders of the containers.
const (
	ByUse       Sort = 'c'
	ByLimitUsed Sort = 'u'
	ByThrottled Sort = 't'
	ByName      Sort = 'n'
	ByLimit     Sort = 'l'
)

// Sorts lists the orders and their names on the command line.
var Sorts = []struct {
	Sort
	Word string
}{{ByUse, "cpu"}, {ByLimitUsed, "limit-used"}, {ByThrottled, "throttled"}, {ByName, "name"}, {ByLimit, "limit"}}

func (s Sort) String() string {
	for _, known := range Sorts {
		if known.Sort == s {
			return known.Word
		}
	}
	return ""
}

// Visible returns the containers that match the filter, in the chosen order. Containers that are equal in this order are sorted by
// name.
func (u *UI) Visible(rows []Row) []*Row {
	var visible []*Row
	for i := range rows {
		if rows[i].matches(strings.ToLower(u.Filter)) {
			visible = append(visible, &rows[i])
		}
	}
	slices.SortStableFunc(visible, func(a, b *Row) int {
		order := cmp.Or(u.Sort.compare(a, b), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
		if u.Reverse {
			return -order
		}
		return order
	})
	return visible
}

func (r *Row) matches(filter string) bool {
	for _, word := range []string{r.Name, r.ID, r.Class.String(), r.Condition} {
		if strings.Contains(strings.ToLower(word), filter) {
			return true
		}
	}
	return false
}

// compare sorts numbers in descending order, unknown values last. For ByName it returns 0, because Visible sorts equal containers
// by name.
func (s Sort) compare(a, b *Row) int {
	switch s {
	case ByLimitUsed:
		return cmp.Compare(b.LimitShare, a.LimitShare)
	case ByThrottled:
		return cmp.Or(cmp.Compare(b.Throttled, a.Throttled), cmp.Compare(b.ThrottledAll, a.ThrottledAll))
	case ByName:
		return 0
	case ByLimit:
		return cmp.Compare(b.Limit, a.Limit)
	default:
		return cmp.Compare(b.use(), a.use())
	}
}

func (r *Row) use() float64 {
	if !r.Used {
		return -1
	}
	return r.Use
}

// intervals are the intervals between samples that the keys + and - choose from.
var intervals = []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

// Bounds of the interval.
const (
	MinInterval = 100 * time.Millisecond
	MaxInterval = time.Minute
)

// The names of keys without a printable character.
const (
	keyInterrupt                   = "interrupt"
	keyEnter, keyEsc, keyBackspace = "enter", "esc", "backspace"
	keyUp, keyDown, keyHome        = "up", "down", "home"
	keyEnd, keyPageUp, keyPageDown = "end", "page up", "page down"
)

// Press handles a key and reports whether the user quits. key is the name of the key or its character. page is the number of lines
// by which page up and page down move the cursor.
func (u *UI) Press(key string, f *Figures, page int) (quit bool) {
	switch {
	case key == keyInterrupt:
		return true
	case u.isTyping:
		u.handleFilterKey(key)
		return false
	case u.Help:
		u.Help = false
		return key == "q"
	case key == "q":
		return true
	case u.Inside != "":
		u.handleDetailsKey(key, f, page)
	default:
		u.handleListKey(key, f, page)
	}
	switch key {
	case "?", "h":
		u.Help = true
	case "p", " ":
		u.Paused = !u.Paused
	case "+", "=":
		if i := slices.IndexFunc(intervals, func(d time.Duration) bool { return d > u.Interval }); i >= 0 {
			u.Interval = intervals[i]
		}
	case "-":
		if i := slices.IndexFunc(intervals, func(d time.Duration) bool { return d >= u.Interval }); i != 0 {
			u.Interval = intervals[(i+len(intervals))%len(intervals)-1]
		}
	}
	return false
}

// maxFilter bounds the filter's length.
const maxFilter = 100

// handleFilterKey handles a key while the user types the filter.
func (u *UI) handleFilterKey(key string) {
	switch key {
	case keyEnter:
		u.isTyping = false
	case keyEsc:
		u.isTyping, u.Filter = false, ""
	case keyBackspace:
		_, last := utf8.DecodeLastRuneInString(u.Filter)
		u.Filter = u.Filter[:len(u.Filter)-last]
	default:
		if r, size := utf8.DecodeRuneInString(key); size == len(key) && unicode.IsPrint(r) && len(u.Filter) < maxFilter {
			u.Filter += key
		}
	}
}

// handleListKey handles a key in the list of containers.
func (u *UI) handleListKey(key string, f *Figures, page int) {
	visible := u.Visible(f.Rows)
	switch key {
	case "/":
		u.isTyping = true
	case keyEsc:
		u.Filter = ""
	case "r":
		u.Reverse = !u.Reverse
	case keyEnter:
		if len(visible) > 0 {
			u.Selected = visible[u.cursor(visible)].ID
			u.Inside, u.threadCursor = u.Selected, 0
		}
	default:
		if len(key) == 1 && Sort(key[0]).String() != "" {
			u.Sort, u.Reverse = Sort(key[0]), false
		}
		if at, moved := move(key, u.cursor(visible), len(visible), page); moved && len(visible) > 0 {
			u.Selected = visible[at].ID
		}
	}
}

// handleDetailsKey handles a key in the details of a container.
func (u *UI) handleDetailsKey(key string, f *Figures, page int) {
	switch key {
	case keyEsc, keyEnter, keyBackspace:
		u.Inside = ""
	default:
		if f.Inside != nil {
			u.threadCursor, _ = move(key, u.threadCursor, len(f.Inside.Threads), page)
		}
	}
}

// cursor returns the index of the selected container in the visible list; 0 if the list does not contain that container.
func (u *UI) cursor(visible []*Row) int {
	return max(0, slices.IndexFunc(visible, func(r *Row) bool { return r.ID == u.Selected }))
}

// move returns the position of a cursor among n lines after a key. moved is false if the key does not move a cursor.
func move(key string, at, n, page int) (to int, moved bool) {
	switch key {
	case keyUp, "k":
		at--
	case keyDown, "j":
		at++
	case keyPageUp:
		at -= page
	case keyPageDown:
		at += page
	case keyHome:
		at = 0
	case keyEnd:
		at = n - 1
	default:
		return at, false
	}
	return max(0, min(at, n-1)), true
}
