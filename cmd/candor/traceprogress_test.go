package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/candor-project/candor/trace"
)

// TestTraceProgress: events and rate always; a bar and the time left by the count of events,
// or by the time of the trace, as far as the header knows.
func TestTraceProgress(t *testing.T) {
	events := make([]trace.Event, 2*stride)
	for i := range events {
		events[i] = trace.Event{Kind: trace.MachineUpdate, Time: trace.Micros(i)}
	}
	for _, test := range []struct {
		header trace.Header
		parts  string
		want   string
	}{
		{trace.Header{}, "", "1024 events, 512 a second"},
		{trace.Header{}, "1 of 2 traces", "1 of 2 traces, 1024 events, 512 a second"},
		{trace.Header{Events: 2 * stride, Span: 9}, "", "[############------------] 1024 events, 512 a second, 2s left"},
		{trace.Header{Span: 4 * (stride - 1)}, "", "[######------------------] 1024 events, 512 a second, 6s left"},
	} {
		c := &countedReader{Reader: trace.NewMemory(trace.Header{}, events)}
		if line := c.stage(test.header, "").line(time.Second); line != "0 events, 0 a second" {
			t.Errorf("at the start: %q", line)
		}
		var e trace.Event
		for range stride + 10 {
			if err := c.Next(&e); err != nil {
				t.Fatal(err)
			}
		}
		if line := c.stage(test.header, test.parts).line(2 * time.Second); line != test.want {
			t.Errorf("%+v: %q, want %q", test.header, line, test.want)
		}
	}
}

// TestNoProgress: a file gets no line, and the events are all there.
func TestNoProgress(t *testing.T) {
	r, err := trace.Open(googleFixture, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	counted, end := countEvents(file, r, "")
	n := 0
	for err = nil; err == nil; n++ {
		err = counted.Next(&trace.Event{})
	}
	if end(); err != io.EOF || n != 14+1 {
		t.Errorf("%d events, %v", n-1, err)
	}
	if text, err := os.ReadFile(file.Name()); err != nil || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
}
