package apps

import (
	"errors"
	"math"
	"os"
	"testing"
)

// TestSameWork: every application does the same work each time, more work with a larger size, and leaves no file.
func TestSameWork(t *testing.T) {
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
				t.Errorf("%d, again %d, with more work %d; want twice the same, and another", first, again, more)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
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

// TestPerception: the application finds the sign at its position.
func TestPerception(t *testing.T) {
	for frame := range 20 {
		x, y := findCircle(blur(blur(takeFrame(frame))))
		atX, atY := signPlace(frame)
		if math.Hypot(float64(x-atX), float64(y-atY)) > 3 {
			t.Errorf("frame %d: found at %d,%d, is at %d,%d", frame, x, y, atX, atY)
		}
	}
}

// TestPlanning: the path is as short as that of Bellman and Ford's algorithm, which relaxes all edges until nothing
// changes.
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

// TestPrediction: the filter's estimate of the position is better than a single measurement, and it finds the speed,
// which is not measured.
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

// TestDecision: a forest whose trees agree returns their choice, and each node of a tree follows its branch.
func TestDecision(t *testing.T) {
	forest := newForest()
	for t := range forest {
		for i := range forest[t] {
			forest[t][i] = treeNode{input: 0, threshold: 0.5}
			if i == 1<<treeDepth-1 { // below each bound on the way
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
