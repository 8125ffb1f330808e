package advise

// A queue is a FIFO queue that reuses its memory.
type queue[T any] struct {
	list []T
	head int // index in list of the first element
}

func (q *queue[T]) push(v T)      { q.list = append(q.list, v) }
func (q *queue[T]) isEmpty() bool { return q.head == len(q.list) }
func (q *queue[T]) first() T      { return q.list[q.head] }

func (q *queue[T]) pop() T {
	v := q.list[q.head]
	q.head++
	if 2*q.head >= len(q.list) {
		q.list = q.list[:copy(q.list, q.list[q.head:])]
		q.head = 0
	}
	return v
}
