package ledger

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestBook(t *testing.T) {
	var b Book
	if err := b.Charge("a", Log, BPF, time.Second); !errors.Is(err, ErrUnknown) || b.Dropped() != time.Second {
		t.Errorf("unknown container: error %v, dropped %v", err, b.Dropped())
	}
	b.Open("a")
	for _, charge := range []struct {
		kind   Kind
		method Method
		time   time.Duration
	}{{Read, BPF, 7}, {Log, BPF, 1}, {Shim, Exact, 2}, {Log, BPF, 3}, {Log, Exact, 5}} {
		if err := b.Charge("a", charge.kind, charge.method, charge.time); err != nil {
			t.Fatal(err)
		}
	}
	b.Open("a") // changes nothing
	want := []Total{{Log, BPF, 4}, {Log, Exact, 5}, {Shim, Exact, 2}, {Read, BPF, 7}}
	if got := b.Totals("a"); !slices.Equal(got, want) {
		t.Errorf("totals: got %v, want %v", got, want)
	}
	if got := b.Charged("a"); got != 11 {
		t.Errorf("charged: got %v, want 11ns: readers of the log are not charged", got)
	}
	if err := b.Charge("a", Log, BPF, -1); err == nil || b.Charged("a") != 11 {
		t.Errorf("negative charge: error %v, total %v", err, b.Charged("a"))
	}
	if got := b.Containers(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("containers: got %v", got)
	}
	b.End("a")
	if b.Totals("a") != nil || len(b.Containers()) != 0 {
		t.Error("an ended container has totals")
	}
}

// TestCredit: credits add up and end with the container. They do not change the charges.
func TestCredit(t *testing.T) {
	var b Book
	if err := b.Credit("a", 3); !errors.Is(err, ErrUnknown) || b.Credited("a") != 0 || b.Dropped() != 0 {
		t.Errorf("unknown container: error %v, credited %v, dropped %v", err, b.Credited("a"), b.Dropped())
	}
	b.Open("a")
	for _, d := range []time.Duration{3, 0, 4} {
		if err := b.Credit("a", d); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Credit("a", -1); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("negative credit: error %v", err)
	}
	if got := b.Credited("a"); got != 7 || b.Charged("a") != 0 || b.Totals("a") != nil {
		t.Errorf("credited %v, charged %v, totals %v; want 7ns credited", got, b.Charged("a"), b.Totals("a"))
	}
	b.End("a")
	b.Open("a")
	if got := b.Credited("a"); got != 0 {
		t.Errorf("a container with the ID of an ended container: got %v", got)
	}
}

func TestUnattributed(t *testing.T) {
	var b Book
	b.AddUnattributed("dockerd", 3)
	b.AddUnattributed("dockerd", -5)
	b.AddUnattributed("dockerd", 4)
	if got := b.Unattributed(); len(got) != 1 || got["dockerd"] != 7 {
		t.Errorf("got %v, want 7ns: totals never decrease", got)
	}
}
