package advise

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/candor-project/candor/bandwidth/timescale"
)

// Answer returns the recommended setting. This is the cheapest outcome that has a bandwidth, meets the target, and can be verified with a
// recording of this length. isKnown is false if there is no such outcome; Shortage and Cheapest then give the reason.
//
// Sensitive containers are excluded, because the program can need more threads than a sensitive container has CPUs.
func (r *Report) Answer() (best Outcome, isKnown bool) {
	verified := slices.DeleteFunc(r.limited(), func(o Outcome) bool { return r.shortage(o) != nil })
	if len(verified) == 0 {
		return Outcome{}, false
	}
	return Cheapest(verified, r.Target)
}

// Shortage returns nil if there is an answer, or if no outcome meets the target. Otherwise the recording is too short to verify the
// outcomes that meet the target, and Shortage describes the outcome that needs the shortest recording.
func (r *Report) Shortage() *Shortage {
	if _, isKnown := r.Answer(); isKnown {
		return nil
	}
	var least *Shortage
	for _, o := range r.limited() {
		if s := r.shortage(o); s != nil && r.Target.IsMetBy(o) && (least == nil || s.Length < least.Length) {
			least = s
		}
	}
	return least
}

func (r *Report) shortage(o Outcome) *Shortage { return r.Target.shortage(o, r.BusyWindows, r.Span) }

// limited returns the outcomes with a bandwidth.
func (r *Report) limited() []Outcome {
	return slices.DeleteFunc(slices.Clone(r.Outcomes), func(o Outcome) bool { return o.Sensitive > 0 })
}

// String returns the shortage as a sentence for the user.
func (s *Shortage) String() string {
	return fmt.Sprintf("%s needs %d windows of %s with work, and the recording has %d", s.Bound, s.Needed, timescale.Length(s.Window), s.Have)
}

// RecordFor returns the length of a recording that is long enough, with a reserve of a tenth. It is rounded up to a multiple of
// 10 s, of 1 min above a minute, or of 1 h above an hour.
func (s *Shortage) RecordFor() time.Duration {
	length, step := s.Length+s.Length/10, 10*time.Second
	switch {
	case length > time.Hour:
		step = time.Hour
	case length > time.Minute:
		step = time.Minute
	}
	return (length + step - 1) / step * step
}

// maxLength bounds Shortage.Length.
const maxLength = 10 * 365 * 24 * time.Hour

// scaled returns a length times a factor, at most maxLength.
func scaled(length time.Duration, factor float64) time.Duration {
	return time.Duration(math.Min(float64(length)*factor, float64(maxLength)))
}

// writeAnswer writes the recommended setting and the commands for it, or the reason why there is none.
func (r *Report) writeAnswer(w io.Writer) {
	best, isKnown := r.Answer()
	if !isKnown {
		r.writeNoAnswer(w)
		return
	}
	fmt.Fprintf(w, "%s: use %s, and class flexible. Expect throttling in %.1f %% of the periods, and delays of %s at the 99th percentile (target: %s).\n%s",
		r.Group, best, 100*best.Throttled, delay(best.P99), r.Target, best.howTo())
	if alternative, ok := r.sensitive(); ok {
		fmt.Fprintf(w, "If the program starts as many threads as it sees CPUs, use class sensitive instead: %s\n%s", alternative, alternative.howTo())
	}
	r.writeRemarks(w, best)
}

// writeNoAnswer writes how long to record for an answer, or that no setting meets the target.
func (r *Report) writeNoAnswer(w io.Writer) {
	s := r.Shortage()
	if s == nil {
		nearest, _ := r.Cheapest()
		fmt.Fprintf(w, "%s: no setting meets %s. The nearest is %s, with throttling in %.1f %% of the periods, and delays of %s at the 99th percentile.\n",
			r.Group, r.Target, nearest, 100*nearest.Throttled, delay(nearest.P99))
		return
	}
	fmt.Fprintf(w, "%s: no answer, because the recording of %s is too short: %s.\nRecord for %s or longer", r.Group, timescale.Length(r.Span.Round(100*time.Millisecond)), s, timescale.Length(s.RecordFor()))
	if r.Record != nil {
		fmt.Fprintf(w, ": %s", r.Record(s.RecordFor()))
	}
	fmt.Fprintln(w)
}

// writeRemarks writes remarks about the recommended setting.
func (r *Report) writeRemarks(w io.Writer, best Outcome) {
	if r.exceedsAbove(best) {
		fmt.Fprintf(w, "The group above, %s, has a limit of %s, which is less: raise that too\n", r.aboveName(), milli(r.aboveLimit()))
	}
	if use := r.Mean / best.CPUs(); use > burstHelps {
		pays := ""
		if use > burstCosts {
			pays = ", and its neighbors would pay for one"
		}
		fmt.Fprintf(w, "It uses %.0f %% of that on average: there is little to save up for a burst%s. For lower delays raise the limit, or start another instance\n", 100*use, pays)
	}
}

// sensitive returns the cheapest sensitive container that meets the target. ok is false if there is none.
func (r *Report) sensitive() (best Outcome, ok bool) {
	list := slices.DeleteFunc(slices.Clone(r.Outcomes), func(o Outcome) bool { return o.Sensitive == 0 })
	if len(list) == 0 {
		return best, false
	}
	return Cheapest(list, r.Target)
}

// A jsonAnswer is the recommended setting as JSON.
type jsonAnswer struct {
	Limit     int     `json:"limitMilli"`
	Class     string  `json:"class"`
	Quota     float64 `json:"quotaSeconds"`
	Period    float64 `json:"periodSeconds"`
	Burst     float64 `json:"burstSeconds"`
	Throttled float64 `json:"throttledShare"` // expected share of throttled periods
	P99       float64 `json:"delayP99Seconds"`
	Sensitive int     `json:"sensitiveCPUs,omitempty"` // exclusive CPUs of the alternative with class sensitive
}

// answer returns the JSON form of the recommended setting.
func (r *Report) answer(o Outcome) *jsonAnswer {
	a := &jsonAnswer{
		Limit: int(math.Round(1000 * o.CPUs())), Class: "flexible", Quota: o.Quota.Seconds(), Period: o.Period.Seconds(), Burst: o.Burst.Seconds(),
		Throttled: o.Throttled, P99: o.P99.Seconds(),
	}
	if alternative, ok := r.sensitive(); ok {
		a.Sensitive = alternative.Option.Sensitive
	}
	return a
}
