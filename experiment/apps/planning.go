package apps

import "container/heap"

// mapSide is the side of the road map in crossings.
const mapSide = 150

// plan plans routes on a map whose roads have different travel times.
func plan(ways int, _ string) (sum uint64, err error) {
	roads := drawMap()
	for way := range ways {
		random := randomOf(1 + way)
		from, to := random.IntN(mapSide), mapSide*mapSide-1-random.IntN(mapSide) // across the map
		sum += uint64(shortest(roads, from, to))
	}
	return sum, nil
}

// A road leads to a crossing and has a travel time.
type road struct{ to, takes int }

// drawMap returns the roads from each crossing to its four neighbors, with a few motorways.
func drawMap() [][]road {
	random := randomOf(0)
	roads := make([][]road, mapSide*mapSide)
	join := func(a, b, takes int) {
		roads[a], roads[b] = append(roads[a], road{b, takes}), append(roads[b], road{a, takes})
	}
	for i := range roads {
		if i%mapSide > 0 {
			join(i, i-1, 10+random.IntN(90))
		}
		if i >= mapSide {
			join(i, i-mapSide, 10+random.IntN(90))
		}
		if random.IntN(500) == 0 {
			join(i, random.IntN(len(roads)), 100+random.IntN(900))
		}
	}
	return roads
}

// shortest returns the shortest travel time between two crossings (Dijkstra, "A note on two problems in
// connection with graphs", 1959).
func shortest(roads [][]road, from, to int) int {
	best := make([]int, len(roads)) // travel time plus one; 0: not reached
	best[from] = 1
	for open := (&reached{{from, 1}}); open.Len() > 0; {
		at := heap.Pop(open).(road)
		if at.to == to {
			return at.takes - 1
		}
		if at.takes > best[at.to] {
			continue
		}
		for _, r := range roads[at.to] {
			if t := at.takes + r.takes; best[r.to] == 0 || t < best[r.to] {
				best[r.to] = t
				heap.Push(open, road{r.to, t})
			}
		}
	}
	return -1
}

// reached is a heap of crossings, ordered by travel time.
type reached []road

func (r reached) Len() int           { return len(r) }
func (r reached) Less(i, j int) bool { return r[i].takes < r[j].takes }
func (r reached) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *reached) Push(x any)        { *r = append(*r, x.(road)) }
func (r *reached) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}
