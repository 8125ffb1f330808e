package apps

// Size of the forest: complete binary trees.
const (
	trees     = 120
	treeDepth = 13
	inputs    = 24 // inputs of a decision
	choices   = 5  // keep, brake, speed up, left, right
)

// decide makes decisions, a hundred in a part, by the votes of a forest of decision trees.
func decide(hundreds int, _ string) (sum uint64, err error) {
	forest := plant()
	random := randomOf(1)
	var situation [inputs]float32
	for range 100 * hundreds {
		for i := range situation {
			situation[i] = random.Float32()
		}
		sum = 31*sum + uint64(vote(forest, &situation))
	}
	return sum, nil
}

// A fork compares an input with a bound. A leaf has the tree's choice instead.
type fork struct {
	input, choice uint8
	bound         float32
}

// plant creates a random forest. The quality of its decisions does not affect their cost.
func plant() [][]fork {
	random := randomOf(0)
	forest := make([][]fork, trees)
	for t := range forest {
		forest[t] = make([]fork, 1<<treeDepth)
		for i := range forest[t] {
			forest[t][i] = fork{uint8(random.IntN(inputs)), uint8(random.IntN(choices)), random.Float32()}
		}
	}
	return forest
}

// vote returns the choice of most trees.
func vote(forest [][]fork, situation *[inputs]float32) (most int) {
	var votes [choices]int
	for _, tree := range forest {
		at := 1 // the children of fork i are 2i and 2i+1
		for range treeDepth - 1 {
			below := 0
			if situation[tree[at].input] < tree[at].bound {
				below = 1
			}
			at = 2*at + below
		}
		votes[tree[at].choice]++
	}
	for c, n := range votes {
		if n > votes[most] {
			most = c
		}
	}
	return most
}
