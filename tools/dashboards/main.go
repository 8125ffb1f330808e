// Command dashboards writes the Grafana dashboards of Candor, in the schema of Grafana's foundation SDK: go run -C tools
// ./dashboards DIRECTORY...
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// run writes each dashboard to each directory.
func run(directories []string) error {
	for _, d := range all {
		text, err := d.json()
		if err != nil {
			return err
		}
		for _, directory := range directories {
			if err := os.WriteFile(filepath.Join(directory, d.name+".json"), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
