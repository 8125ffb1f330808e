package experiment

import (
	"math"
	"math/rand/v2"
	"testing"
)

// noisyRun returns the time of a run with 2.5 % of noise. In 15 % of the runs it adds a spike of 15 % on
// average.
func noisyRun(random *rand.Rand, time float64) float64 {
	time *= 1 + 0.025*random.NormFloat64()
	if random.Float64() < 0.15 {
		time *= 1 + 0.15*random.ExpFloat64()
	}
	return time
}

// simulateDecisions simulates experiments with workloads that take longer by effect without the view. It
// returns the number of experiments by verdict, and the mean number of pairs.
func simulateDecisions(experiments int, effect float64) (verdicts map[Verdict]int, meanPairs float64) {
	random := rand.New(rand.NewPCG(3, math.Float64bits(effect)))
	verdicts = map[Verdict]int{}
	for range experiments {
		var gains []float64
		for more := true; more; {
			gains = append(gains, math.Log(noisyRun(random, 1+effect)/noisyRun(random, 1)))
			var verdict Verdict
			var pairs int
			if verdict, pairs, more = Decide(gains, math.Log(1.05)); !more {
				verdicts[verdict]++
				meanPairs += float64(pairs) / float64(experiments)
			}
		}
	}
	return verdicts, meanPairs
}

// TestErrorRates: an effect of up to 2 % is called sensitive in at most 1 % of the experiments. An effect of
// 20 % is found in 99 %, after at most 12 pairs on average.
func TestErrorRates(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	const experiments = 2000
	for _, effect := range []float64{-0.2, -0.05, 0, 0.01, 0.02} {
		verdicts, pairs := simulateDecisions(experiments, effect)
		t.Logf("effect %+.0f %%: %v, %.1f pairs", 100*effect, verdicts, pairs)
		if share := float64(verdicts[Sensitive]) / experiments; share > 0.01 {
			t.Errorf("effect %+.0f %%: %.3f called sensitive, want 0.01 at most", 100*effect, share)
		}
	}
	for _, effect := range []float64{0.2, 0.5} {
		verdicts, pairs := simulateDecisions(experiments, effect)
		t.Logf("effect %+.0f %%: %v, %.1f pairs", 100*effect, verdicts, pairs)
		if share := float64(verdicts[Sensitive]) / experiments; share < 0.99 || pairs > 12 {
			t.Errorf("effect %+.0f %%: %.3f called sensitive in %.1f pairs, want 0.99 in 12", 100*effect, share, pairs)
		}
	}
	verdicts, pairs := simulateDecisions(experiments, 0.05) // at the margin, each error has a probability of about 5 %
	t.Logf("effect of the margin: %v, %.1f pairs", verdicts, pairs)
	if share := float64(max(verdicts[Sensitive], verdicts[Flexible])) / experiments; share > 0.06 {
		t.Errorf("effect of the margin: %v", verdicts)
	}
}

func TestDecideStages(t *testing.T) {
	gain := make([]float64, 40)
	for i := range gain {
		gain[i] = 0.2 + 0.001*float64(i)
	}
	if v, pairs, more := Decide(gain[:7], 0.05); v != Undecided || pairs != 7 || !more {
		t.Errorf("7 pairs: %s after %d, more %v; want no decision before the first stage", v, pairs, more)
	}
	if v, pairs, more := Decide(gain, 0.05); v != Sensitive || pairs != 8 || more {
		t.Errorf("%s after %d, more %v; want sensitive after 8", v, pairs, more)
	}
	for i := range gain {
		gain[i] = 0.05 + 0.01*float64(1+i)*float64(1-i%2*2) // around the margin
	}
	if v, pairs, more := Decide(gain, 0.05); v != Undecided || pairs != 40 || more {
		t.Errorf("%s after %d, more %v; want undecided after 40", v, pairs, more)
	}
}
