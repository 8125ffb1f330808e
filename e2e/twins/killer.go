package twins

import (
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Killer kills programs that give containers back with SIGKILL at random points. Only kills in the middle count: the program
// has changed at least one container, and at least one container is not given back.
type Killer struct {
	Wanted              int // number of kills in the middle
	Early, Middle, Late int // number of kills before the first change, in the middle, and after the last change

	random *rand.Rand
	span   time.Duration // time from the start of a program to the last kill in the middle
}

// NewKiller returns a Killer for $CANDOR_GIVEBACK_KILLS kills, 1 by default. It logs the seed of its random numbers.
func NewKiller(t testing.TB) *Killer {
	t.Helper()
	k := &Killer{Wanted: 1, span: 50 * time.Millisecond}
	if text := os.Getenv("CANDOR_GIVEBACK_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("CANDOR_GIVEBACK_KILLS=%s: must be a number of 1 or more", text)
		}
		k.Wanted = n
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	k.random = rand.New(rand.NewPCG(seed, 0))
	return k
}

// A Program gives the containers of pairs back.
type Program interface {
	Kill()            // sends SIGKILL and waits for the end
	IsComplete() bool // reports whether the program has given all containers back
}

// killsPerRound bounds the kills in the middle of a round. Each program has fewer containers to change than its predecessor.
const killsPerRound = 10

// Rounds calls round until k has its wanted number of kills. Each round creates containers and calls Interrupt. Rounds fails the
// test if too many rounds are necessary.
func (k *Killer) Rounds(t testing.TB, round func(n int)) {
	t.Helper()
	for n := 0; k.Middle < k.Wanted && n < 3*k.Wanted+5 && !t.Failed(); n++ {
		round(n)
	}
	t.Logf("kills: %d before the first change, %d in the middle, %d after the last change", k.Early, k.Middle, k.Late)
	if k.Middle < k.Wanted {
		t.Errorf("%d kills in the middle of a give-back, want %d: the kills come too early or too late", k.Middle, k.Wanted)
	}
}

// Interrupt starts programs and kills each of them at a random point, until k has enough kills, a single pair has differences, or
// a program has completed. Then the caller starts a program that completes. Interrupt fails the test if fewer than two containers
// differ from their twins at the start.
func (k *Killer) Interrupt(t testing.TB, pairs []*Pair, start func() Program) {
	t.Helper()
	rest := remaining(t, pairs)
	if len(rest) < 2 {
		t.Fatalf("before the give-back, only %d of %d containers differ from their twins: the test has no result", len(rest), len(pairs))
	}
	enough := min(k.Wanted, k.Middle+killsPerRound)
	for range 3 * killsPerRound {
		if k.Middle >= enough || len(rest) < 2 {
			return
		}
		if k.kill(t, rest, start) {
			return
		}
		rest = remaining(t, rest)
	}
}

// kill starts a program, kills it at a random point and counts the kill. rest are the pairs with differences.
func (k *Killer) kill(t testing.TB, rest []*Pair, start func() Program) (isComplete bool) {
	t.Helper()
	before := make([]Settings, len(rest))
	for i, p := range rest {
		before[i] = mustRead(t, p.Given, p.Parents)
	}
	began := time.Now()
	program := start()
	if k.random.IntN(5) == 0 {
		time.Sleep(time.Duration(k.random.Int64N(int64(k.span))))
	} else {
		k.awaitChange(t, rest, program)
	}
	isComplete = program.IsComplete()
	program.Kill()
	took, changed := time.Since(began), 0
	for i, p := range rest {
		if now := mustRead(t, p.Given, p.Parents); !maps.Equal(now.texts, before[i].texts) {
			changed++
		}
	}
	switch {
	case isComplete || len(remaining(t, rest)) == 0:
		k.Late++
	case changed == 0:
		k.Early++
	default:
		k.Middle++
		k.span = took
	}
	return isComplete
}

// awaitChange waits until a random file of a random container has changed, or the program has completed, for at most a minute.
// Then it waits for a random time of at most 1.6 ms. The last container is no choice, because the middle ends with its changes.
func (k *Killer) awaitChange(t testing.TB, rest []*Pair, program Program) {
	t.Helper()
	names, given, _, err := rest[k.random.IntN(len(rest)-1)].differences()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 { // the program was faster
		return
	}
	name := names[k.random.IntN(len(names))]
	path, initial := given.paths[name], given.texts[name]
	for end := time.Now().Add(time.Minute); !program.IsComplete() && time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
		if now, err := os.ReadFile(path); err != nil || strings.TrimSuffix(string(now), "\n") != initial {
			break
		}
	}
	longest := int64(50*time.Microsecond) << k.random.IntN(6)
	time.Sleep(time.Duration(k.random.Int64N(longest)))
}

// remaining returns the pairs with differences.
func remaining(t testing.TB, pairs []*Pair) (rest []*Pair) {
	t.Helper()
	for _, p := range pairs {
		lines, err := p.Differences()
		if err != nil {
			t.Fatal(err)
		}
		if lines != "" {
			rest = append(rest, p)
		}
	}
	return rest
}

func mustRead(t testing.TB, pid, parents int) Settings {
	t.Helper()
	s, err := Read(pid, parents)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
