// The program prints the default of GOMAXPROCS, which depends on the Go version in go.mod. With the argument numcpu it
// prints runtime.NumCPU.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	n := runtime.GOMAXPROCS(0)
	if len(os.Args) > 1 && os.Args[1] == "numcpu" {
		n = runtime.NumCPU()
	}
	fmt.Println(n)
}
