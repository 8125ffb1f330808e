// The program prints the default of GOMAXPROCS, which depends on the Go version in go.mod.
package main

import (
	"fmt"
	"runtime"
)

func main() { fmt.Println(runtime.GOMAXPROCS(0)) }
