package experiment

import "math/rand/v2"

// Order returns in which order set-ups are run: each once in a round, in a random order that a seed
// fixes. So runs of one round are near to each other in time, and make pairs.
func Order(setups, rounds int, seed uint64) [][]int {
	random := rand.New(rand.NewPCG(seed, uint64(setups)))
	order := make([][]int, rounds)
	for round := range order {
		order[round] = random.Perm(setups)
	}
	return order
}
