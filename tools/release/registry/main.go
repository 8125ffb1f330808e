// Command registry is the container registry of the distribution project, with files as its only storage. The tests of a
// release push images and the chart to it.
//
//	registry serve CONFIG
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem" // the storage
)

func main() {
	if err := registry.RootCmd.Execute(); err != nil {
		os.Exit(1)
	}
}
