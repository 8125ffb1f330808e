package top

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// press sends keys to the UI. A key is a name or a character.
func press(t *testing.T, u *UI, f *Figures, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if u.Press(key, f, 10) {
			t.Fatalf("%q ended the UI", key)
		}
	}
}

func names(rows []*Row) string {
	var names []string
	for _, r := range rows {
		names = append(names, r.Name[strings.LastIndex(r.Name, "/")+1:])
	}
	return strings.Join(names, " ")
}

func TestSortAndFilter(t *testing.T) {
	f := Between(smallReadings(t))
	for keys, want := range map[string]string{
		"c": "app backup log", "u": "app log backup", "t": "app log backup", "n": "backup app log", "l": "app log backup",
		"n r": "log app backup", "c r": "log backup app", "n r c": "app backup log",
		"/ w e b enter": "app log", "/ w e b esc": "app backup log", "/ w e x backspace enter": "app log",
		"/ F L E X I enter": "backup log", "/ z enter": "", "/ z enter esc": "app backup log",
		"/ q enter": "", "/ b a backspace backspace backspace enter": "app backup log",
	} {
		u := &UI{Sort: ByUse, Interval: second}
		press(t, u, f, strings.Fields(keys)...)
		if got := names(u.Visible(f.Rows)); got != want {
			t.Errorf("%s: %q, want %q", keys, got, want)
		}
	}
}

// smallReadings returns the readings of small as arguments of Between, without an inspected container.
func smallReadings(t *testing.T) (before, after *Reading, inside string) {
	before, after = small(t)
	return before, after, ""
}

func TestKeys(t *testing.T) {
	f := Between(smallReadings(t))
	u := &UI{Sort: ByName, Interval: second}
	at := func(want string) {
		t.Helper()
		if got := u.Visible(f.Rows)[u.cursor(u.Visible(f.Rows))].Name; !strings.HasSuffix(got, want) {
			t.Errorf("on %s, want %s", got, want)
		}
	}
	at("backup")
	press(t, u, f, keyDown, "j")
	at("log")
	press(t, u, f, keyDown)
	at("log")
	press(t, u, f, "c") // the cursor stays with its container
	at("log")
	press(t, u, f, keyHome)
	at("app")
	press(t, u, f, keyPageDown, keyUp)
	at("backup")
	press(t, u, f, keyEnter)
	if u.Inside != "backup" {
		t.Errorf("Inside is %q, want backup", u.Inside)
	}
	press(t, u, f, "n", keyDown, keyEsc)
	if u.Inside != "" || u.Sort != ByUse {
		t.Errorf("%+v", u)
	}
	press(t, u, f, "p", "?", "x")
	if !u.Paused || u.Help {
		t.Errorf("%+v", u)
	}
	for _, key := range []string{"q", keyInterrupt} {
		if !u.Press(key, f, 10) {
			t.Errorf("%q did not end the UI", key)
		}
	}
	press(t, u, f, "/", "q")
	if u.Filter != "q" {
		t.Errorf("filter %q", u.Filter)
	}
	if !u.Press(keyInterrupt, f, 10) {
		t.Error("ctrl-c did not end the UI while typing")
	}
}

func TestInterval(t *testing.T) {
	f := Between(smallReadings(t))
	var got []time.Duration
	u := &UI{Interval: 3 * second}
	for key := range strings.FieldsSeq("+ + - - - - - - - - - + + + + + + + + +") {
		press(t, u, f, key)
		got = append(got, u.Interval)
	}
	ms := time.Millisecond
	want := []time.Duration{5 * second, 10 * second, 5 * second, 2 * second, second, 500 * ms, 250 * ms, 250 * ms, 250 * ms, 250 * ms, 250 * ms,
		500 * ms, second, 2 * second, 5 * second, 10 * second, 30 * second, time.Minute, time.Minute, time.Minute}
	if !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	u.Interval = MinInterval
	if press(t, u, f, "-"); u.Interval != MinInterval {
		t.Errorf("got interval %v, want at least MinInterval", u.Interval)
	}
}

// TestKeysWithoutContainers: keys do not fail if there is no container, or if the selected container has
// ended.
func TestKeysWithoutContainers(t *testing.T) {
	w := newWorld(t, "core:2 pu:1")
	f := Between(w.now(), w.now(), "gone")
	u := &UI{Sort: ByUse, Interval: second, Selected: "gone"}
	press(t, u, f, keyDown, keyEnd, keyPageUp, keyEnter)
	if u.Inside != "" {
		t.Errorf("Inside is %q, want none", u.Inside)
	}
	u.Inside = "gone"
	press(t, u, f, keyDown, keyEnd, keyPageUp, keyHome)
	if text := screen(u, f, Size{Columns: 80, Rows: 24}); !strings.Contains(text, "gone has ended") {
		t.Errorf("the ended container is not reported:\n%s", text)
	}
}
