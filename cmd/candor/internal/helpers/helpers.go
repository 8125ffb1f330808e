// Package helpers computes the CPU use of the helpers of containers: processes outside of a container, such as dockerd, that work for the
// container. A Meter reads the totals; Between computes the uses between two readings. The commands top, audit, inspect and ledger show
// these uses.
package helpers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/ledger"
	"github.com/candor-project/candor/ledger/sample"
	"github.com/candor-project/candor/ledger/softirq"
)

// A Meter reads the CPU time of helpers. A nil Meter reads nothing. Open returns nil for users other than root, because only root
// can measure helpers.
type Meter struct {
	source  *sample.Source
	book    ledger.Book
	packets *softirq.Source // nil: packets are not measured
	rx      ledger.Book     // book for packets only, because each source removes ended containers from its book
}

// warmUp is the time in which Open finds the busy shims. A source samples the shim of a pod only if the shim is busy.
const warmUp = 100 * time.Millisecond

// Open starts to measure; it returns nil for users other than root.
func Open() *Meter {
	if os.Geteuid() != 0 {
		return nil
	}
	m := &Meter{source: sample.Open()}
	for range 2 {
		_ = m.source.Read(&m.book) // the next reading returns the error again
		time.Sleep(warmUp)
	}
	return m
}

// AddPackets makes the Meter also measure the CPU time of received packets.
func (m *Meter) AddPackets(o softirq.Options) (err error) {
	m.packets, err = softirq.Open(o)
	return err
}

// Close ends the measurement.
func (m *Meter) Close() {
	if m == nil {
		return
	}
	_ = m.source.Close() // the measurement has ended, so an error has no effect
	if m.packets != nil {
		_ = m.packets.Close()
	}
}

// SetScanInterval sets the minimum time between two scans for new helpers, for readings at a high rate.
func (m *Meter) SetScanInterval(d time.Duration) { m.source.ScanInterval = d }

// Charged returns the CPU time that a container has caused in helpers since the measurement started. id is an ID or the beginning
// of an ID, as for Figures.Find. known is false if the container has no helpers. isPlaced means that the helper that copies the
// container's log runs below the container's cgroup. sum then omits the CPU time of this helper, because the CPU time of the
// cgroup includes it. packets is the CPU time of received packets. It is not part of sum.
func (r *Reading) Charged(id string, isPlaced bool) (sum, packets time.Duration, known bool) {
	whole := find(r.Totals, id)
	for _, t := range r.Totals[whole] {
		isInGroup := isPlaced && t.Kind == ledger.Log && t.Method == ledger.Exact
		switch {
		case t.Kind == ledger.RX:
			packets += t.Time
		case t.Kind.IsCharged() && !isInGroup:
			sum += t.Time
		}
	}
	return sum, packets, whole != ""
}

// Credited returns the CPU time that a container has paid for packets of other containers.
func (r *Reading) Credited(id string) time.Duration { return r.Credits[find(r.Totals, id)] }

// Used returns the CPU time of all helpers that Read would return now as Reading.Used. It costs less than Read. hasEnded is true
// if a helper has ended since the last Read (see sample.Source.Used). isKnown is false if the Meter measures packets, because
// softirqs have no CPU clock that Used could read.
func (m *Meter) Used() (used time.Duration, hasEnded, isKnown bool) {
	used, hasEnded = m.source.Used()
	return used, hasEnded, m.packets == nil
}

// Refusal returns the reason why the CPU time of daemons cannot be divided among containers, or nil.
func (m *Meter) Refusal() error { return m.source.Refusal }

// A Reading holds the CPU time of the helpers. For daemons, it is the time since the measurement started; for helpers of a single
// container, the time since the helper started.
type Reading struct {
	At           time.Time
	Used         time.Duration             // CPU time of all helpers that the totals include
	Totals       map[string][]ledger.Total // by container ID
	Credits      map[string]time.Duration  // CPU time that a container has paid for packets of other containers, by container ID
	Unattributed map[string]time.Duration  // CPU time for no known container, by daemon; key softirq: packets of the host
	Dropped      time.Duration             // CPU time of helpers for containers that have ended
	Helpers      []sample.Helper
	Method       ledger.Method // method for helpers of several containers
	Refusal      error         // reason if Method is ledger.None, otherwise nil
	Failure      error         // reason why the CPU time of some helpers is unattributed or missing, or nil
}

// Read returns a reading; nil if the meter is nil. If it cannot measure a helper, the values of the other helpers are still right.
func (m *Meter) Read() *Reading {
	if m == nil {
		return nil
	}
	err := m.source.Read(&m.book)
	r := &Reading{
		At: time.Now(), Used: m.source.Booked(), Totals: map[string][]ledger.Total{}, Unattributed: m.book.Unattributed(),
		Dropped: m.book.Dropped(), Helpers: m.source.Helpers(), Method: m.source.Method(), Refusal: m.source.Refusal, Failure: err,
	}
	for _, id := range m.book.Containers() {
		r.Totals[id] = m.book.Totals(id)
	}
	if m.packets != nil {
		r.addPackets(m.packets.Read(&m.rx), &m.rx)
	}
	return r
}

// addPackets adds the totals of a book of packets. In this book, the key of a container in Candor's own cgroup can be only the
// beginning of the container's ID.
func (r *Reading) addPackets(err error, book *ledger.Book) {
	r.Failure = errors.Join(r.Failure, err)
	r.Credits = map[string]time.Duration{}
	for _, id := range book.Containers() {
		whole := cmp.Or(find(r.Totals, id), id)
		r.Totals[whole] = append(r.Totals[whole], book.Totals(id)...)
		r.Credits[whole] += book.Credited(id)
	}
	for daemon, d := range book.Unattributed() {
		if r.Unattributed == nil {
			r.Unattributed = map[string]time.Duration{}
		}
		r.Unattributed[daemon] += d
	}
}

// A Use is the CPU use of a kind of helper work for a container, in CPUs.
type Use struct {
	Kind   ledger.Kind
	Method ledger.Method
	CPUs   float64
}

// A UseDocument is the JSON form of a Use.
type UseDocument struct {
	Kind   ledger.Kind   `json:"helper"`
	Method ledger.Method `json:"method"`
	Use    float64       `json:"useMilli"`
}

// Documents returns the JSON form of uses. The list is never nil.
func Documents(uses []Use) []UseDocument {
	list := make([]UseDocument, len(uses))
	for i, u := range uses {
		list[i] = UseDocument{u.Kind, u.Method, jsonout.Milli(u.CPUs)}
	}
	return list
}

// Figures are the uses between two readings.
type Figures struct {
	Containers   map[string][]Use   // by container ID
	Credits      map[string]float64 // CPUs that a container pays for packets of other containers, by container ID; nil: not measured
	Unattributed map[string]float64 // CPUs that a daemon uses for no known container, by daemon
	Refusal      error              // Reading.Refusal
	Failure      error              // Reading.Failure
}

// Problems describes CPU time that is missing in the figures of the containers, a line for each reason.
func (f *Figures) Problems() (lines []string) {
	if f != nil && f.Refusal != nil {
		lines = append(lines, fmt.Sprintf("The CPU time of containerd and dockerd is not divided among containers: %v", f.Refusal))
	}
	if f != nil && f.Failure != nil {
		lines = append(lines, fmt.Sprintf("The CPU time of some helpers is unattributed or missing: %v", f.Failure))
	}
	return lines
}

// Between computes the uses between two readings. It returns nil if a reading is nil, or if no time is between the readings. A container
// that is only in the second reading has no uses.
func Between(before, after *Reading) *Figures {
	if before == nil || after == nil || !after.At.After(before.At) {
		return nil
	}
	f := &Figures{Containers: map[string][]Use{}, Unattributed: map[string]float64{}, Refusal: after.Refusal, Failure: after.Failure}
	cpus := func(d time.Duration) float64 { return max(float64(d), 0) / float64(after.At.Sub(before.At)) }
	for id, totals := range after.Totals {
		earlier, exists := before.Totals[id]
		if !exists {
			continue
		}
		uses := []Use{}
		for _, t := range totals {
			i := slices.IndexFunc(earlier, func(e ledger.Total) bool { return e.Kind == t.Kind && e.Method == t.Method })
			if i >= 0 {
				t.Time -= earlier[i].Time
			}
			uses = append(uses, Use{t.Kind, t.Method, cpus(t.Time)})
		}
		f.Containers[id] = uses
	}
	if after.Credits != nil {
		f.Credits = map[string]float64{}
	}
	for id, d := range after.Credits {
		if was, exists := before.Credits[id]; exists {
			f.Credits[id] = cpus(d - was)
		}
	}
	for daemon, d := range after.Unattributed {
		f.Unattributed[daemon] = cpus(d - before.Unattributed[daemon])
	}
	return f
}

// ShortID is the number of digits of a container's ID in the name of Candor's own cgroup.
const ShortID = 12

// Find returns the ID of a measured container, given its ID or the beginning of its ID, at least ShortID digits. It returns "" if no
// container, or more than one, has this beginning.
func (f *Figures) Find(id string) (whole string) {
	if f == nil {
		return ""
	}
	return find(f.Containers, id)
}

// find returns the key that equals id, or else the only key that begins with id. It returns "" if no key, or more than one key, begins with
// id, or if id equals no key and has fewer than ShortID digits.
func find[T any](containers map[string]T, id string) (whole string) {
	if _, exists := containers[id]; exists {
		return id
	}
	if len(id) < ShortID {
		return ""
	}
	for other := range containers {
		if !strings.HasPrefix(other, id) {
			continue
		}
		if whole != "" {
			return ""
		}
		whole = other
	}
	return whole
}

// Charged returns the CPU use that a container causes in helpers. It omits the work for readers of the container's log. id is an
// ID or the beginning of an ID, as for Find. known is false if the container has no helpers, or is not measured.
func (f *Figures) Charged(id string) (cpus float64, known bool) {
	whole := f.Find(id)
	if whole == "" {
		return 0, false
	}
	for _, u := range f.Containers[whole] {
		if u.Kind.IsCharged() {
			cpus += u.CPUs
		}
	}
	return cpus, true
}

// PlacedUse returns the CPU use of the helper that runs below the cgroup of a container, given all helpers and the uses of the
// container. The CPU time of the cgroup includes the CPU time of this helper. The helper serves only this container, so its
// method is exact.
func PlacedUse(all []sample.Helper, id, cgroup string, uses []Use) (cpus float64) {
	i := slices.IndexFunc(all, func(h sample.Helper) bool {
		return h.Container == id && strings.HasPrefix(h.Cgroup, cgroup+"/")
	})
	if i < 0 {
		return 0
	}
	for _, u := range uses {
		if u.Kind == all[i].Kind && u.Method == ledger.Exact {
			cpus += u.CPUs
		}
	}
	return cpus
}

// Measure returns the uses in a time span of the given length; nil for users other than root. The error is ctx.Err().
func Measure(ctx context.Context, during time.Duration) (*Figures, error) {
	m := Open()
	defer m.Close()
	before := m.Read()
	if before == nil {
		return nil, nil // only root can measure helpers
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(during):
	}
	return Between(before, m.Read()), nil
}
