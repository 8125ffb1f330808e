package softirq

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/ledger"
)

func TestDivide(t *testing.T) {
	for name, test := range map[string]struct {
		payment
		charges []time.Duration
		credit  time.Duration
	}{
		"another container pays":                {payment{time: 90, owners: []string{"web"}, payer: "batch"}, []time.Duration{90}, 90},
		"no container pays":                     {payment{time: 90, owners: []string{"web"}}, []time.Duration{90}, 0},
		"the owner pays":                        {payment{time: 90, owners: []string{"web"}, payer: "web"}, []time.Duration{0}, 0},
		"the sender pays":                       {payment{time: 90, owners: []string{"web"}, payer: "batch", isCaused: true}, []time.Duration{0}, 0},
		"a pod":                                 {payment{time: 91, owners: []string{"app", "proxy"}, payer: "batch"}, []time.Duration{46, 45}, 91},
		"a container of the pod pays":           {payment{time: 90, owners: []string{"app", "log", "proxy"}, payer: "app"}, []time.Duration{0, 30, 30}, 60},
		"the kernel counts it as no task's":     {payment{time: 90, owners: []string{"web"}, payer: "batch", isFree: true}, []time.Duration{90}, 0},
		"no task's, beside the owner":           {payment{time: 90, owners: []string{"web"}, payer: "web", isFree: true}, []time.Duration{90}, 0},
		"no task's, beside the sender":          {payment{time: 90, owners: []string{"web"}, payer: "batch", isFree: true, isCaused: true}, []time.Duration{90}, 0},
		"less than a nanosecond for each owner": {payment{time: 1, owners: []string{"a", "b"}, payer: "c"}, []time.Duration{1, 0}, 1},
		"no owner":                              {payment{time: 90, payer: "batch"}, []time.Duration{}, 0},
	} {
		if charges, credit := test.divide(); !slices.Equal(charges, test.charges) || credit != test.credit {
			t.Errorf("%s: got charges %v, credit %v; want %v, %v", name, charges, credit, test.charges, test.credit)
		}
	}
}

// TestDivideProperties: no charge is negative, the charges are at most the time, and they equal the credit if a container
// pays.
func TestDivideProperties(t *testing.T) {
	id := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e"})
	rapid.Check(t, func(t *rapid.T) {
		p := payment{
			time: time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "time")), owners: rapid.SliceOfDistinct(id.Filter(func(s string) bool { return s != "" }), rapid.ID).Draw(t, "owners"),
			payer: id.Draw(t, "payer"), isCaused: rapid.Bool().Draw(t, "caused"), isFree: rapid.Bool().Draw(t, "free"),
		}
		charges, credit := p.divide()
		sum := time.Duration(0)
		for i, c := range charges {
			if c < 0 || c > p.time {
				t.Fatalf("%+v: charge %v", p, c)
			}
			if c > 0 && p.owners[i] == p.payer && !p.isFree {
				t.Fatalf("%+v: the payer is charged", p)
			}
			sum += c
		}
		switch {
		case sum > p.time, len(charges) != len(p.owners):
			t.Fatalf("%+v: charges %v", p, charges)
		case p.payer != "" && !p.isFree && credit != sum, (p.payer == "" || p.isFree) && credit != 0:
			t.Fatalf("%+v: charges %v, credit %v", p, charges, credit)
		case len(p.owners) > 0 && !slices.Contains(p.owners, p.payer) && !p.isCaused && sum != p.time:
			t.Fatalf("%+v: charges %v do not add up", p, charges)
		}
	})
}

// A fakeTracer has the accounts of a kernel.
type fakeTracer struct {
	accounts map[account]uint64
	counters counters
	late     uint64 // time that an account gets just before its removal
}

func (f *fakeTracer) read() (map[account]uint64, counters, error) {
	return maps.Clone(f.accounts), f.counters, nil
}

func (f *fakeTracer) remove(a account) uint64 {
	sum := f.accounts[a] + f.late
	delete(f.accounts, a)
	return sum
}

func (*fakeTracer) Close() error { return nil }

// TestSource: the time of accounts is booked once, also if an account is removed and added again. The host's time, and time
// without an owner, is only counted.
func TestSource(t *testing.T) {
	const host, web, pod = 1, 2, 3
	fake := &fakeTracer{accounts: map[account]uint64{}}
	found := []Container{
		{ID: "inner", Groups: []uint64{21}}, {ID: "web", Groups: []uint64{20, 21}, Namespaces: []uint32{web, host}},
		{ID: "app", Groups: []uint64{30}, Namespaces: []uint32{pod}}, {ID: "proxy", Groups: []uint64{31}, Namespaces: []uint32{pod}},
	}
	s := newSource(fake, Options{Host: host, Find: func() ([]Container, error) { return found, nil }}, false)
	var book ledger.Book
	read := func() {
		t.Helper()
		if err := s.Read(&book); err != nil {
			t.Fatal(err)
		}
	}
	check := func(id string, charged, credited time.Duration) {
		t.Helper()
		if got, paid := book.Charged(id), book.Credited(id); got != charged || paid != credited {
			t.Errorf("%s: charged %v, credited %v; want %v, %v", id, got, paid, charged, credited)
		}
	}
	fake.accounts[account{payer: 30, owner: web}] = 100   // app pays for web
	fake.accounts[account{payer: 21, owner: web}] = 10    // a container inside of web pays for web
	fake.accounts[account{payer: 20, owner: pod}] = 50    // web pays for the pod
	fake.accounts[account{payer: 0, owner: pod}] = 20     // the idle task pays
	fake.accounts[account{payer: 20, owner: host}] = 1000 // packets of the host
	fake.accounts[account{payer: 20, owner: 99}] = 500    // an unknown namespace
	fake.accounts[account{20, pod, true}] = 7777          // web sends to the pod
	fake.counters = counters{unowned: 30, sent: 600, overflow: 3}
	read()
	check("web", 110, 50)
	check("inner", 0, 10)
	check("app", 35, 100)
	check("proxy", 35, 0)
	if got := book.Unattributed()[Daemon]; got != 1533 {
		t.Errorf("unattributed: got %v, want 1533ns", got)
	}
	fake.late = 5
	read()                // removes the accounts
	check("web", 120, 55) // app and a container inside pay 5 ns each for web, and web pays 5 ns for the pod
	if len(fake.accounts) != 0 || len(s.before) != 0 {
		t.Errorf("accounts without new time remain: %v, %v", fake.accounts, s.before)
	}
	fake.late = 0
	fake.accounts[account{payer: 30, owner: web}] = 7
	read()
	check("web", 127, 55)
	if got := uncredited(&book); got != 25 { // of the idle task
		t.Errorf("charges are %v more than credits, want 25ns", got)
	}

	found = found[2:] // web has ended
	s.places.listed = time.Now().Add(-listEvery)
	before := book.Unattributed()[Daemon]
	fake.accounts[account{payer: 30, owner: web}] += 9
	read()
	if got := book.Unattributed()[Daemon] - before; got != 9 || slices.Contains(book.Containers(), "web") {
		t.Errorf("an ended container: %v unattributed, containers %v", got, book.Containers())
	}
}

// uncredited returns the charges without a credit.
func uncredited(book *ledger.Book) (sum time.Duration) {
	for _, id := range book.Containers() {
		sum += book.Charged(id) - book.Credited(id)
	}
	return sum
}

// TestRefresh: an unknown namespace or cgroup causes a new list, once. An error keeps the old list.
func TestRefresh(t *testing.T) {
	lists, failure := 0, error(nil)
	found := []Container{{ID: "web", Groups: []uint64{20}, Namespaces: []uint32{2}}}
	s := newSource(&fakeTracer{}, Options{Host: 1, Find: func() ([]Container, error) { lists++; return found, failure }}, false)
	now := time.Now()
	step := func(after time.Duration, want int, accounts ...account) {
		t.Helper()
		now = now.Add(after)
		all := map[account]uint64{}
		for _, a := range accounts {
			all[a] = 1
		}
		if err := s.refresh(all, now); !errors.Is(err, failure) || lists != want {
			t.Errorf("got %d lists, want %d; error %v", lists, want, err)
		}
	}
	known := account{payer: 20, owner: 2}
	step(0, 1, known)
	step(minList, 1, known, account{payer: 0, owner: 1})
	step(0, 2, account{payer: 20, owner: 5})
	step(minList, 2, account{payer: 20, owner: 5}) // foreign
	step(0, 3, account{payer: 6, owner: 2})
	step(minList/2, 3, account{payer: 7, owner: 2}) // too early
	step(listEvery, 4, known)
	failure = errors.New("no rights")
	step(listEvery, 5, known)
	if len(s.places.owners[2]) != 1 {
		t.Error("an error removed the containers")
	}
}

func TestParseInterruptTime(t *testing.T) {
	for text, want := range map[string]uint64{
		"cpu  1 2 3 4 5 0 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n": 0,
		"cpu  1 2 3 4 5 60 7\n":                                  60,
	} {
		if got, err := parseInterruptTime(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "cpu 1 2 3 4 5\n", "cpu0 1 2 3 4 5 6 7\n", "cpu 1 2 3 4 5 x 7\n"} {
		if _, err := parseInterruptTime(text); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
