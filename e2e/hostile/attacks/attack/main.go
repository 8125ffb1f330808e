// Command attack performs an attack of package attacks. Usage: attack NAME [ARG]...
package main

import (
	"os"

	"github.com/candor-project/candor/e2e/hostile/attacks"
)

func init() {
	if len(os.Args) > 1 {
		attacks.Prepare(os.Args[1])
	}
}

func main() { attacks.Run(os.Args[1], os.Args[2:]) }
