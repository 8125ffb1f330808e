package experiment

import "math/rand/v2"

// Order returns a random order of the setups for each round. Each round has each setup once, so that runs of a round
// are close in time and make pairs. The same seed gives the same order.
func Order(setups, rounds int, seed uint64) [][]int {
	random := rand.New(rand.NewPCG(seed, uint64(setups)))
	order := make([][]int, rounds)
	for round := range order {
		order[round] = random.Perm(setups)
	}
	return order
}
