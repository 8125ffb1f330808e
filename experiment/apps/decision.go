package apps

// Size of the forest: complete binary trees.
const (
	trees     = 120
	treeDepth = 13
	inputs    = 24 // inputs of a decision
	choices   = 5  // keep, brake, speed up, left, right
)

// decide makes a hundred decisions for each part of the work, by the votes of a forest of decision trees.
func decide(hundreds int, _ string) (sum uint64, err error) {
	forest := newForest()
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

// A treeNode compares an input with a threshold. A leaf holds the tree's choice instead.
type treeNode struct {
	input, choice uint8
	threshold     float32
}

// newForest creates a random forest. The quality of its decisions does not affect their cost.
func newForest() [][]treeNode {
	random := randomOf(0)
	forest := make([][]treeNode, trees)
	for t := range forest {
		forest[t] = make([]treeNode, 1<<treeDepth)
		for i := range forest[t] {
			forest[t][i] = treeNode{uint8(random.IntN(inputs)), uint8(random.IntN(choices)), random.Float32()}
		}
	}
	return forest
}

// vote returns the choice of most trees.
func vote(forest [][]treeNode, situation *[inputs]float32) (choice int) {
	var votes [choices]int
	for _, tree := range forest {
		at := 1 // the children of node i are 2i and 2i+1
		for range treeDepth - 1 {
			below := 0
			if situation[tree[at].input] < tree[at].threshold {
				below = 1
			}
			at = 2*at + below
		}
		votes[tree[at].choice]++
	}
	for c, n := range votes {
		if n > votes[choice] {
			choice = c
		}
	}
	return choice
}
