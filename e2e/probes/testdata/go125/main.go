// Prints the default of GOMAXPROCS, which depends on the go line in go.mod; with the argument
// numcpu what runtime.NumCPU says.
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
