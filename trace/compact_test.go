package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/internal/golden"
)

// pack writes events in the compact form.
func pack(h Header, events []Event) ([]byte, error) {
	var out bytes.Buffer
	w, err := newCompactWriter(&out)
	if err == nil {
		err = writeAll(w, events)
	}
	if err == nil {
		_, err = w.finish(h, Report{})
	}
	return out.Bytes(), err
}

func writeAll(w *compactWriter, events []Event) error {
	for i := range events {
		if err := w.write(&events[i]); err != nil {
			return err
		}
	}
	return nil
}

// keepsRules returns an error if events break the rules of doc.go, which the compact form requires.
func keepsRules(events []Event) error {
	w, err := newCompactWriter(io.Discard)
	if err != nil {
		return err
	}
	return writeAll(w, events)
}

// all reads a trace to its end.
func all(r Reader) ([]Event, error) {
	var events []Event
	var e Event
	for {
		if err := r.Next(&e); err == io.EOF {
			return events, nil
		} else if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

// unpack reads the compact form.
func unpack(file []byte) ([]Event, error) {
	c, err := newCompact("file", bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return all(c)
}

// drawEvents draws events that follow the rules of doc.go.
func drawEvents(t *rapid.T) []Event {
	var events []Event
	var c codec
	amount := rapid.OneOf(rapid.Int32Range(0, 3), rapid.Int32Range(0, 1<<31-1))
	for range rapid.IntRange(0, 200).Draw(t, "events") {
		c.time += Micros(rapid.OneOf(rapid.Int64Range(0, 2), rapid.Int64Range(0, 1<<50)).Draw(t, "since"))
		e := Event{Time: c.time}
		switch kind := Kind(rapid.IntRange(1, 5).Draw(t, "kind")); kind {
		case End:
			slot := rapid.Uint32Range(0, 20).Draw(t, "slot")
			s, ok := c.end(uint64(slot))
			if !ok {
				continue
			}
			e.Kind, e.Container, e.Job, e.Task = End, slot, s.job, s.task
			e.Reason = Reason(rapid.IntRange(0, int(Lost)).Draw(t, "reason"))
		case Submit:
			e.Kind, e.Job, e.Task = Submit, rapid.Uint64().Draw(t, "job"), rapid.Uint32().Draw(t, "task")
			e.Container = c.submit(e.Job, e.Task)
			e.CPU, e.Memory = amount.Draw(t, "cpu"), amount.Draw(t, "memory")
			e.Class, e.Priority = rapid.Uint8().Draw(t, "class"), rapid.Uint8().Draw(t, "priority")
			e.Flags = Flags(rapid.IntRange(0, 7).Draw(t, "flags"))
		default:
			e.Kind, e.Machine = kind, rapid.Uint32Range(0, c.machines).Draw(t, "machine")
			if e.Machine == c.machines {
				e.Kind = MachineAdd
				c.machines++
			}
			if e.Kind != MachineRemove {
				e.CPU, e.Memory = amount.Draw(t, "cpu"), amount.Draw(t, "memory")
			}
			e.Flags = Flags(rapid.IntRange(0, 1).Draw(t, "at start"))
		}
		events = append(events, e)
	}
	return events
}

// TestCompactKeepsEverything: reading a written trace returns the same events.
func TestCompactKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t)
		file, err := pack(Header{Name: "drawn", Unit: Milli, Classes: make([]Class, 256)}, events)
		if err != nil {
			t.Fatal(err)
		}
		sameEvents(t, file, events)
	})
}

// sameEvents checks that a compact file holds events.
func sameEvents(t interface{ Fatalf(string, ...any) }, file []byte, events []Event) {
	got, err := unpack(file)
	if err != nil || len(got) != len(events) {
		t.Fatalf("%d events, %v; want %d", len(got), err, len(events))
	}
	for i := range got {
		if got[i] != events[i] {
			t.Fatalf("event %d: %+v, want %+v", i, got[i], events[i])
		}
	}
}

// TestCompactRefusesBrokenRules: the writer refuses events that break the rules of doc.go.
func TestCompactRefusesBrokenRules(t *testing.T) {
	for want, events := range map[string][]Event{
		"time 1 after 2":                         {{Kind: MachineAdd, Time: 2}, {Kind: MachineRemove, Time: 1}},
		"container in slot 1: must be in slot 0": {{Kind: Submit, Container: 1}},
		"end of slot 0, where nothing":           {{Kind: End}},
		"machine 1, but only 0 were added":       {{Kind: MachineAdd, Machine: 1}},
		"machine 0, but only 0 were added":       {{Kind: MachineRemove}},
		"class 0, the header has 0":              {{Kind: Submit}},
	} {
		if _, err := pack(Header{}, events); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestCompactBroken: the reader detects each changed byte and each truncation of a file.
func TestCompactBroken(t *testing.T) {
	r, err := Open("google2011:testdata/google", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	events, err := all(r)
	if err != nil {
		t.Fatal(err)
	}
	file, err := pack(r.Header(), events)
	if err != nil {
		t.Fatal(err)
	}
	sameEvents(t, file, events)
	for i := range file {
		broken := bytes.Clone(file)
		broken[i] ^= 0x10
		if _, err := unpack(broken); err == nil {
			t.Errorf("byte %d of %d changed: not noticed", i, len(file))
		}
		if _, err := unpack(file[:i]); err == nil {
			t.Errorf("%d bytes of %d: not noticed", i, len(file))
		}
	}
}

// TestCompactIsSmall: an event of a cell like Google's takes at most 16 bytes before compression.
func TestCompactIsSmall(t *testing.T) {
	file := smallCell(t, 500, 0.2, 1)
	events, bytes := uint32(0), uint32(0)
	for at := len(compactMagic); file[at] == blockEvents; {
		h := parseBlockHeader(file[at:])
		events, bytes = events+h.events, bytes+h.bytes
		at += blockHead + int(h.stored)
	}
	if events < 10_000 || bytes > 16*events {
		t.Errorf("%d events in %d bytes", events, bytes)
	}
	t.Logf("%.1f bytes an event", float64(bytes)/float64(events))
}

// TestImport: Import writes a compact file with the events and the report of its source. If it fails, it
// leaves no file.
func TestImport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ctrace")
	for name, spec := range map[string]string{
		"google": "google2011:testdata/google", "openb": "openb:testdata/openb",
		"plain": "csv:testdata/plain/trace.csv", "kubectl": "kubectl:testdata/kubectl",
	} {
		r, err := Open(spec, Options{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := Import(t.Context(), path, r)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/"+name+".txt", text(c))
		if got := c.Header(); got.Events != want.Events || got.Slots != want.Slots || got.Source != spec || len(got.Classes) == 0 {
			t.Errorf("%+v, want %+v", got, want)
		}
		c.Close()
		r.Close()
	}
	r := NewMemory(Header{}, []Event{{Kind: End}})
	other := filepath.Join(filepath.Dir(path), "y.ctrace")
	if _, err := Import(t.Context(), other, r); err == nil {
		t.Error("an invalid stream was imported")
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	day, err := Open("synthetic:machines=1000,days=1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Import(stopped, other, day); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Dir(path) + "/.*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(other); err == nil {
		t.Errorf("%s is there", other)
	}
}

// FuzzCompact reads arbitrary blocks with correct checksums: the reader returns events that the writer
// accepts, or an error.
func FuzzCompact(f *testing.F) {
	f.Add([]byte{byte(MachineAdd), 0, 0, 1, 1, byte(Submit) | tagNewShape, 1, 2, 2, 0, 5, 5, 1, 1, 1, byte(End), 3, 0}, uint32(3))
	f.Fuzz(func(t *testing.T, raw []byte, events uint32) {
		var out bytes.Buffer
		w, err := newCompactWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		w.raw, w.inBlock, w.events = append(w.raw, raw...), max(events, 1), int64(events)
		w.submits, w.machines = w.events, uint32(w.events) // the header must not fail before the events
		w.live = make([]slotState, min(events, 100))
		if _, err := w.finish(Header{Classes: googleClasses()}, Report{}); err != nil {
			t.Fatal(err)
		}
		c, err := newCompact("fuzz", bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		got, _ := all(c)
		if err := keepsRules(got); err != nil {
			t.Errorf("read what can't be written: %v", err)
		}
	})
}

// FuzzCompactFile reads arbitrary files.
func FuzzCompactFile(f *testing.F) {
	file, err := pack(Header{Name: "seed", Classes: googleClasses()}, []Event{{Kind: MachineAdd, CPU: 5}, {Kind: Submit, Job: 7}, {Kind: End, Job: 7, Time: 3}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add(binary.LittleEndian.AppendUint64([]byte(compactMagic), 15))
	f.Fuzz(func(t *testing.T, file []byte) {
		events, err := unpack(file)
		if err != nil {
			return
		}
		if err := keepsRules(events); err != nil {
			t.Errorf("read what can't be written: %v", err)
		}
	})
}
