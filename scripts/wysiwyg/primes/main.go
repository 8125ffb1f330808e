// Command primes counts primes in goroutines, one for each CPU that Go uses (GOMAXPROCS).
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

func main() {
	limit := int64(3_000_000)
	if len(os.Args) > 1 {
		n, err := strconv.ParseInt(os.Args[1], 10, 64)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		limit = n
	}
	var next, found atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			const part = 1000
			for from := next.Add(part) - part; from < limit; from = next.Add(part) - part {
				found.Add(count(max(from, 2), min(from+part, limit)))
			}
		})
	}
	all.Wait()
	fmt.Println(found.Load())
}

// count returns the number of primes between two numbers.
func count(from, to int64) (primes int64) {
	for n := from; n < to; n++ {
		if isPrime(n) {
			primes++
		}
	}
	return primes
}

func isPrime(n int64) bool {
	for d := int64(2); d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return true
}
