package helpers

import (
	"errors"
	"slices"
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

// TestPackets: the totals of packets are added to those of the same container, also if its ID is short, and a container that starts
// between two readings has no credit.
func TestPackets(t *testing.T) {
	const whole = "0123456789abcdef"
	var book ledger.Book
	reading := func() *Reading {
		r := &Reading{At: time.Now(), Totals: map[string][]ledger.Total{whole: {{Kind: ledger.Log, Method: ledger.BPF, Time: 1}}}}
		r.addPackets(errors.New("a failure"), &book)
		return r
	}
	book.Open(whole[:ShortID])
	book.Open("web")
	before := reading()
	book.Open("new")
	book.AddUnattributed("softirq", 9)
	for id, d := range map[string]time.Duration{whole[:ShortID]: 5, "new": 3} {
		if err := errors.Join(book.Charge(id, ledger.RX, ledger.BPF, d), book.Credit(id, 2*d)); err != nil {
			t.Fatal(err)
		}
	}
	after := reading()
	after.At = before.At.Add(10)
	want := []ledger.Total{{Kind: ledger.Log, Method: ledger.BPF, Time: 1}, {Kind: ledger.RX, Method: ledger.BPF, Time: 5}}
	if got := after.Totals[whole]; !slices.Equal(got, want) || len(after.Totals) != 3 || after.Failure == nil || after.Unattributed["softirq"] != 9 {
		t.Errorf("got %+v, want %v for %s", after, want, whole)
	}
	f := Between(before, after)
	if _, exists := f.Credits["new"]; exists || f.Credits[whole] != 1 || f.Credits["web"] != 0 || len(f.Credits) != 2 {
		t.Errorf("credits: got %v, want 1 CPU for %s and 0 for web", f.Credits, whole)
	}
	if f := Between(&Reading{}, &Reading{At: time.Now()}); f.Credits != nil {
		t.Errorf("packets were not measured: got %v", f.Credits)
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
