package trace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// realTraces returns the directory of the real traces. It skips the test if the directory is missing.
func realTraces(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../shared/traces")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		t.Skip("no ../shared/traces beside the project: the real traces are not here")
	}
	return dir
}

// TestRealGoogle: the parts have the published numbers of events.
func TestRealGoogle(t *testing.T) {
	s := summaryOf(t, "google2011:"+realTraces(t)+"/google2011")
	if s.Machines.Start != 12_477 || s.Machines.Cores != 105_652 {
		t.Errorf("%d machines, %v cores", s.Machines.Start, s.Machines.Cores)
	}
	if s.Containers.Start != 132_982 || s.Containers.New != 216_225-132_982 {
		t.Errorf("%d containers at the start, %d new", s.Containers.Start, s.Containers.New)
	}
	near := func(what string, got, want float64) {
		if got < 0.998*want || got > 1.002*want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("load at the start", s.Load[0].Requested/s.Load[0].Capacity, 1.135)
	held, fresh := s.RequestHeld, s.RequestNew
	for i, q := range [][2]float64{
		{held.P10, 0.2}, {held.P50, 0.8}, {held.P75, 1}, {held.P90, 2}, {held.P95, 2.75}, {held.P99, 5}, {held.Max, 8},
		{fresh.P50, 0.4}, {fresh.P90, 1}, {fresh.P99, 2},
	} {
		near("quantile "+string(rune('a'+i)), q[0], q[1])
	}
	sensitive := s.Classes[2].Start + s.Classes[3].Start
	near("share of classes 2 and 3", float64(sensitive)/132_982, 0.492)
}

// TestRealOpenb: nodes, CPUs and pods are those of the published lists.
func TestRealOpenb(t *testing.T) {
	dir := realTraces(t)
	s := summaryOf(t, "openb:"+dir+"/openb")
	if s.Machines.Start != 1523 || s.Machines.Cores != 125_514 || s.Containers.New+s.Containers.Start != 8152-897 {
		t.Errorf("%d machines, %v cores, %d containers", s.Machines.Start, s.Machines.Cores, s.Containers.New)
	}
	if all := summaryOf(t, "openb:"+dir+"/openb,pods=cpu300,start=submitted"); all.Containers.New != 10_094 {
		t.Errorf("cpu300: %d pods", all.Containers.New)
	}
}

// TestRealCompact: a compact file of the real parts has the same events.
func TestRealCompact(t *testing.T) {
	r, err := Open("google2011:"+realTraces(t)+"/google2011", Options{})
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
	got, err := unpack(file)
	if err != nil || !slices.Equal(got, events) {
		t.Errorf("%d events, %v; want %d", len(got), err, len(events))
	}
}

// drain reads a trace to its end and closes it.
func drain(t testing.TB, r Reader) int {
	t.Helper()
	n := 0
	var e Event
	for {
		err := r.Next(&e)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}
