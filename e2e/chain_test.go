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
)

// A chain is servers behind each other, each under the same bandwidth: a call has some CPU time of each, one after the other. A server
// has a worker for each CPU, so that calls are done in the order in which they come, as the model has it. As many calls come at once, and again when all have long been answered, in another part of the periods.
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

var chainBandwidth = bandwidth.Bandwidth{Quota: 25 * ms, Period: 100 * ms}

func (c chain) String() string {
	return fmt.Sprintf("%d in a chain, each %v of %v", c.hops, chainBandwidth.Quota, chainBandwidth.Period)
}

// predict is what candor advise --hops says of a recording of one of the servers without a limit.
func (c chain) predict(t *testing.T, cpus int) advise.Outcome {
	const step = 5 * ms
	d, err := advise.NewDemand(step, cpus)
	if err != nil {
		t.Fatal(err)
	}
	busy := chainCalls * chainWork / time.Duration(cpus)
	for range chainTimes {
		d.Add(float64(cpus), int64(busy/step))
		d.Add(0, int64((chainEvery-busy)/step))
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

// measure lets the kernel run the chain under a bandwidth.
func (c chain) measure(t *testing.T, b bandwidth.Bandwidth) (p passed) {
	l := newLab(t)
	cpus := l.usable.Lowest(2)
	dir := t.TempDir()
	socket := func(hop int) string { return filepath.Join(dir, strconv.Itoa(hop)) }
	groups := []string{"callers"}
	for hop := c.hops - 1; hop >= 0; hop-- { // the last one first: who is before it calls it
		role := []string{"serve", socket(hop), chainWork.String(), strconv.Itoa(cpus.Count())}
		if hop < c.hops-1 {
			role = append(role, socket(hop+1))
		}
		name := fmt.Sprint("hop-", hop)
		groups = append(groups, name)
		l.confine(name, b, cpus, role...)
	}
	callers := l.confine("callers", bandwidth.Bandwidth{}, cpus, "callers", socket(0), strconv.Itoa(chainCalls), chainEvery.String(), strconv.Itoa(chainTimes))
	before, began := l.used([][]string{groups}, cpus), monotonic()
	for range chainTimes {
		var took []float64
		for _, text := range strings.Fields(callers.line(t)) {
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

// delay is how much longer calls took than without a limit on average, and at most.
func (p passed) delay(free passed) (mean, most float64) {
	for i, took := range p.took {
		for rank, ms := range took {
			late := max(ms-free.took[i][rank], 0)
			mean += late / chainTimes / chainCalls
			most = max(most, late)
		}
	}
	return mean, most
}

// TestChain holds what candor advise --hops predicts of a chain of servers against what this kernel does. TestThrottling
// says how to have all chains and a table.
func TestChain(t *testing.T) {
	rounds, all := throttlingRounds(t)
	if !all {
		rounds = 1
	}
	table := &strings.Builder{}
	for _, c := range chains {
		if !c.always && !all {
			continue
		}
		var means, most, foreign []float64
		for range rounds {
			t.Run(c.String(), func(t *testing.T) {
				free := c.measure(t, bandwidth.Bandwidth{})
				limited := c.measure(t, chainBandwidth)
				mean, last := limited.delay(free)
				means, most, foreign = append(means, mean), append(most, last), append(foreign, max(free.foreign, limited.foreign))
			})
		}
		if t.Failed() {
			return
		}
		want := c.predict(t, 2)
		judge(t, table, c.String(), foreign, []compared{
			{"delay, ms", want.Mean.Seconds() * 1000, 20, means},
			{"longest delay, ms", want.P99.Seconds() * 1000, 60, most},
		})
	}
	t.Logf("measured / predicted: median of %d rounds (lowest to highest)\n%s", rounds, table)
}
