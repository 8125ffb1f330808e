// Prints the default of GOMAXPROCS, which depends on the go line in go.mod.
package main

import (
	"fmt"
	"runtime"
)

func main() { fmt.Println(runtime.GOMAXPROCS(0)) }
