// Gopsutil prints the memory of the machine in bytes, as gopsutil reports it.
package main

import (
	"fmt"
	"os"

	"github.com/shirou/gopsutil/v4/mem"
)

func main() {
	m, err := mem.VirtualMemory()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(m.Total)
}
