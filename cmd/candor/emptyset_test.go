package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
)

// TestEmptyCPUSetText: tables and log lines print an empty CPU set as "none". A CPU set is empty when all its
// CPUs are offline.
func TestEmptyCPUSetText(t *testing.T) {
	var table strings.Builder
	if err := writeRows(&table, 0, []grantRow{{}}, false); err != nil || !strings.Contains(table.String(), "  none  ") {
		t.Errorf("%v\n%s", err, table.String())
	}
	var line strings.Builder
	r := slog.NewRecord(time.Now(), slog.LevelWarn, "machine options changed", 0)
	r.Add("reserved", cpuset.Set{}, slog.Group("", slog.String("container", "web"), slog.String("id", "0123")), "usable", cpuset.Of(1))
	if err := (&lineHandler{out: &line}).Handle(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	if want := "candor: machine options changed: reserved none, container web, id 0123, usable 1\n"; line.String() != want {
		t.Errorf("%q, want %q", line.String(), want)
	}
}
