package e2e

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/bandwidth/advise"
	"github.com/candor-project/candor/cpuset"
)

// A chain is servers behind each other, each under the same bandwidth: a call has some CPU time of each, one after the other, and its
// answer goes back through all. A server has one worker, so that calls are done in the order in which they come, and a CPU that is not the next one's,
// as in the model; with more servers than CPUs they share them. As many calls come at once, and again when all have long been answered, in another part of the periods.
type chain struct {
	hops   int
	always bool // not only when there is time for many rounds
}

var chains = []chain{{1, false}, {2, true}, {4, false}}

const (
	chainCalls = 6
	chainWork  = 10 * ms // of a call in each server
	chainTimes = 10
)

// chainEvery is ten times in different parts of the period.
const chainEvery = 730 * ms

// chainBandwidth has room for two calls in a period, and some: a third one ends in the next period in the model and on a machine, where a
// call costs a little more, and CPUs use up to a tick more than they drew.
var chainBandwidth = bandwidth.Bandwidth{Quota: 22 * ms, Period: 100 * ms}

func (c chain) String() string {
	return fmt.Sprintf("%d in a chain, each %v of %v", c.hops, chainBandwidth.Quota, chainBandwidth.Period)
}

// predict is what candor advise --hops says of a recording of one of the servers without a limit, in steps in each of which it does a call.
func (c chain) predict(t *testing.T) advise.Outcome {
	d, err := advise.NewDemand(chainWork, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range chainTimes {
		d.Add(1, chainCalls)
		d.Add(0, int64(chainEvery/chainWork)-chainCalls)
	}
	d.Hops = c.hops
	if err := d.Prepare(); err != nil {
		t.Fatal(err)
	}
	return d.Try(advise.Option{Bandwidth: chainBandwidth})
}

// A passed is how long calls took through a chain.
type passed struct {
	took    [][]float64 // ms, by time and rank
	foreign float64
}

// measure lets the kernel run the chain.
func (c chain) measure(t *testing.T) (p passed) {
	l := newLab(t)
	cpus := l.usable.Lowest(2)
	dir := t.TempDir()
	socket := func(hop int) string { return filepath.Join(dir, strconv.Itoa(hop)) }
	groups := []string{"callers"}
	for hop := c.hops - 1; hop >= 0; hop-- { // the last one first: who is before it calls it
		role := []string{"serve", socket(hop), chainWork.String(), "1"}
		if hop < c.hops-1 {
			role = append(role, socket(hop+1))
		}
		name := fmt.Sprint("hop-", hop)
		groups = append(groups, name)
		own := cpuset.Of(cpus.Slice()[hop%cpus.Count()])
		l.confine(name, chainBandwidth, own, role...)
	}
	callers := l.confine("callers", bandwidth.Bandwidth{}, cpus, "callers", socket(0), strconv.Itoa(chainCalls), chainEvery.String(), strconv.Itoa(chainTimes))
	before, began := l.used([][]string{groups}, cpus), monotonic()
	for range chainTimes {
		var took []float64
		for text := range strings.FieldsSeq(callers.line(t)) {
			ns, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			took = append(took, ns/1e6)
		}
		p.took = append(p.took, took)
	}
	after := l.used([][]string{groups}, cpus)
	others := (after.all - before.all) - (after.kind[0] - before.kind[0])
	p.foreign = max(others.Seconds()/(monotonic()-began).Seconds()/float64(cpus.Count()), 0)
	return p
}

// delay is how much longer calls took than on CPUs of their own without a limit, on average and at most.
func (p passed) delay(hops int) (mean, most float64) {
	for _, took := range p.took {
		for rank, ms := range took {
			free := time.Duration(rank+hops) * chainWork
			late := max(ms-1000*free.Seconds(), 0)
			mean += late / chainTimes / chainCalls
			most = max(most, late)
		}
	}
	return mean, most
}

// TestChain compares the prediction of candor advise --hops for a chain of servers with the measurement on this kernel.
// TestThrottling describes how to run all chains and print a table.
func TestChain(t *testing.T) {
	rounds, all := throttlingRounds(t)
	table := inTurns(t, chains, rounds, all)
	t.Logf("measured / predicted: median of %d rounds (lowest to highest)\n%s", rounds, table)
}

func (c chain) isAlways() bool { return c.always }

func (c chain) judge(t *testing.T, table *strings.Builder, got []passed) {
	want := c.predict(t)
	within := 0.12
	if len(got) < 5 { // no measurement: at hours when a call costs 11 ms two of them do not end within the quota, and delays are half as long again
		within = 0.8
	}
	judge(t, table, c.String(), within, valuesOf(got, func(p passed) float64 { return p.foreign }), []compared{
		{"delay, ms", want.Mean.Seconds() * 1000, 8, valuesOf(got, func(p passed) float64 { mean, _ := p.delay(c.hops); return mean })},
		{"longest delay, ms", want.P99.Seconds() * 1000, 20, valuesOf(got, func(p passed) float64 { _, most := p.delay(c.hops); return most })},
	})
}
