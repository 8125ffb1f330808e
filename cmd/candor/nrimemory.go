package main

import (
	"log/slog"
	"time"

	"github.com/candor-project/candor/internal/resident"
)

// collectAt is by how much of what is in use the heap may grow before it is collected, in percent. What is in use are a few
// MiB; a collection is as long as a container's creation, which would share the CPUs with it.
const collectAt = 150

// startTakes is how long, at the most, after it has met the runtime the plugin does what it never does again.
const startTakes = 10 * time.Second

// trim gives the memory back that only the start needed.
func trim(log *slog.Logger) {
	if err := resident.Trim(); err != nil {
		log.Debug("memory of the start not given back", "error", err)
	}
}
