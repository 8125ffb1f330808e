package apps

import (
	"errors"
	"math"
	"os"
	"testing"
)

// TestDeterministicWork: each application computes the same result in each run, and another result for a
// larger size. No file remains.
func TestDeterministicWork(t *testing.T) {
	for _, a := range All {
		t.Run(a.Name, func(t *testing.T) {
			dir := t.TempDir()
			run := func(parts int) uint64 {
				sum, err := a.run(parts, dir)
				if err != nil {
					t.Fatal(err)
				}
				return sum
			}
			first, again, more := run(2), run(2), run(4)
			if first != again || first == 0 || first == more {
				t.Errorf("got %d, then %d, and %d for a larger size; want two equal results and a different one", first, again, more)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%v remains, %v", left, err)
			}
		})
	}
}

func TestNoApp(t *testing.T) {
	if _, err := Run("steering", 1, ""); !errors.Is(err, ErrNoApp) {
		t.Errorf("%v, want ErrNoApp", err)
	}
	if _, err := Run("disk", 0, "/no/such/folder"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want ErrNotExist", err)
	}
}

// TestPerception: the application finds the sign within 3 pixels of its position.
func TestPerception(t *testing.T) {
	for frame := range 20 {
		x, y := findCircle(blur(blur(takeFrame(frame))))
		atX, atY := signPlace(frame)
		if math.Hypot(float64(x-atX), float64(y-atY)) > 3 {
			t.Errorf("frame %d: got position %d,%d, want %d,%d", frame, x, y, atX, atY)
		}
	}
}

// TestPlanning compares the lengths of shortest paths with those of the Bellman-Ford algorithm.
func TestPlanning(t *testing.T) {
	roads := drawMap()
	const from = 7
	far := make([]int, len(roads))
	for i := range far {
		far[i] = math.MaxInt / 2
	}
	far[from] = 0
	for changed := true; changed; {
		changed = false
		for at := range roads {
			for _, r := range roads[at] {
				if t := far[at] + r.takes; t < far[r.to] {
					far[r.to], changed = t, true
				}
			}
		}
	}
	for to := 0; to < len(roads); to += 997 {
		if got := shortest(roads, from, to); got != far[to] {
			t.Errorf("to %d: %d, want %d", to, got, far[to])
		}
	}
}

// TestPrediction: the estimated position is better than a single measurement. The filter also estimates the
// speed, which is not measured.
func TestPrediction(t *testing.T) {
	random := randomOf(0)
	var f filter
	wrong := 0.0
	for i := range 2000 {
		place := 3 * step * float64(i)
		f.see(place + random.NormFloat64())
		if i >= 1000 {
			wrong += (f.place - place) * (f.place - place) / 1000
		}
	}
	if wrong > 0.2 || math.Abs(f.speed-3) > 0.5 {
		t.Errorf("variance %.3f, speed %.2f; want less than 0.2, and 3", wrong, f.speed)
	}
}

// TestDecision: if all trees agree, vote returns their choice. Each tree follows the branches of its nodes.
func TestDecision(t *testing.T) {
	forest := newForest()
	for t := range forest {
		for i := range forest[t] {
			forest[t][i] = treeNode{input: 0, threshold: 0.5}
			if i == 1<<treeDepth-1 { // the leaf below each threshold on its path
				forest[t][i].choice = 2
			}
		}
	}
	var low, high [inputs]float32
	high[0] = 0.9
	if got := [2]int{vote(forest, &low), vote(forest, &high)}; got != [2]int{2, 0} {
		t.Errorf("%v, want 2 and 0", got)
	}
}
