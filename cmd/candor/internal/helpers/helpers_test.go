package helpers

import (
	"testing"
	"time"

	"github.com/candor-project/candor/ledger"
)

func TestBetween(t *testing.T) {
	start := time.Now()
	total := func(kind ledger.Kind, method ledger.Method, d time.Duration) ledger.Total {
		return ledger.Total{Kind: kind, Method: method, Time: d}
	}
	before := &Reading{At: start, Totals: map[string][]ledger.Total{
		"web":  {total(ledger.Log, ledger.BPF, time.Second), total(ledger.Read, ledger.BPF, time.Second)},
		"gone": {total(ledger.Log, ledger.BPF, time.Second)},
	}, Unattributed: map[string]time.Duration{"dockerd": time.Second}}
	after := &Reading{At: start.Add(2 * time.Second), Totals: map[string][]ledger.Total{
		"web": {total(ledger.Log, ledger.BPF, 2*time.Second), total(ledger.Shim, ledger.Exact, 500*time.Millisecond), total(ledger.Read, ledger.BPF, 3*time.Second)},
		"new": {total(ledger.Log, ledger.BPF, time.Hour)},
	}, Unattributed: map[string]time.Duration{"dockerd": 1500 * time.Millisecond, "containerd": 200 * time.Millisecond}}
	f := Between(before, after)
	if got, known := f.Charged("web"); !known || got != 0.75 {
		t.Errorf("web: got %v, %v, want 0.75 CPUs: half for the log, a quarter for the shim, none for readers", got, known)
	}
	f.Containers["0123456789abcdef"] = []Use{{ledger.Log, ledger.BPF, 0.5}}
	f.Containers["0123456789abffff"] = nil
	for id, want := range map[string]string{"0123456789abcdef": "0123456789abcdef", "0123456789abc": "0123456789abcdef", "0123456789ab": "", "01234567": "", "": ""} {
		if got := f.Find(id); got != want {
			t.Errorf("Find(%q): got %q, want %q", id, got, want)
		}
	}
	if got, known := f.Charged("new"); known {
		t.Errorf("a container without an earlier reading: got %v", got)
	}
	if len(f.Unattributed) != 2 || f.Unattributed["dockerd"] != 0.25 || f.Unattributed["containerd"] != 0.1 {
		t.Errorf("unattributed: got %v", f.Unattributed)
	}
	for _, none := range []*Figures{Between(nil, after), Between(before, nil), Between(after, before)} {
		if _, known := none.Charged("web"); none != nil || known {
			t.Errorf("without two readings in order: got %v", none)
		}
	}
}

// TestNilMeter: users other than root have no meter; it reads nothing and closes.
func TestNilMeter(t *testing.T) {
	var m *Meter
	if r := m.Read(); r != nil {
		t.Errorf("got %v", r)
	}
	m.Close()
}
