package report

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRoundTrip(t *testing.T) {
	commands := []Command{{Name: "a"}, {Name: "b"}}
	want := []Result{
		{Name: "a", Code: 3, Error: "why \"so\"", Output: []byte("one\ntwo\n"), Wall: 2 * time.Second, Leftovers: []string{"group /x"}},
		{Name: "b", Output: []byte("no newline\n")},
	}
	var line bytes.Buffer
	Begin(&line)
	line.WriteString("one\ntwo\n")
	End(&line, want[0])
	Begin(&line)
	line.WriteString("no newline")
	End(&line, want[1])
	Done(&line, "")
	line.WriteString("never read\n")
	terminal := strings.ReplaceAll(line.String(), "\n", "\r\n")

	var live bytes.Buffer
	got, err := Read(strings.NewReader(terminal), commands, &live)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	if live.String() != "one\ntwo\nno newline\n" {
		t.Errorf("live output %q", live.String())
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ said, want string }{
		{"", ErrEarly.Error()},
		{"\x1ebegin\nsome", ErrEarly.Error()},
		{"\x1edone \n", "ran 0 of 1 commands"},
		{"\x1edone mount /proc: no\n", "init: mount /proc: no"},
		{"\x1eend nonsense\n", "nonsense"},
		{"\x1eend {}\n\x1eend {}\n", "more ends"},
	} {
		_, err := Read(strings.NewReader(c.said), []Command{{Name: "a"}}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.said, err, c.want)
		}
	}
	if _, err := Read(strings.NewReader(""), nil, nil); !errors.Is(err, ErrEarly) {
		t.Errorf("silence: error %v, want ErrEarly", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x1ebegin\nhello\x1eend {\"Code\":1}\n\x1edone \n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		results, err := Read(bytes.NewReader(said), []Command{{}, {}}, nil)
		if len(results) > 2 || err == nil && len(results) != 2 {
			t.Fatalf("%d results of 2, error %v", len(results), err)
		}
	})
}
