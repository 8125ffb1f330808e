package nri_test

import (
	"testing"
	"time"

	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// TestRecordedConfig reads a configuration with every field of version 1.
func TestRecordedConfig(t *testing.T) {
	c, err := nri.LoadConfig("testdata/nri.yaml")
	if err != nil {
		t.Fatal(err)
	}
	check := func(field string, is bool) {
		t.Helper()
		if !is {
			t.Errorf("%s has another value", field)
		}
	}
	check("stateDir", c.StateDir == "/run/candor-lab")
	check("repairEvery", c.RepairEvery == 20*time.Second)
	check("headStart", !c.HeadStart)
	check("metrics", c.Metrics == "127.0.0.1:9751")
	check("metricsWebConfig", c.WebConfig == "/etc/candor/web-config.yml")
	check("recordHistogram", c.Histogram == "100ms")
	check("publish", c.Publish)
	check("node.reserved", c.Reserved.String() == "0-1,4")
	check("node.minShared", *c.MinShared == 250)
	node := c.Node
	check("defaults.class", *node.Class == hybrid.Flexible)
	check("defaults.policy", *node.Policy == hybrid.BestEffort)
	check("defaults.topology", *node.Topology == hybrid.SingleL3)
	check("defaults.view", *node.View == spec.ViewAffinity)
	check("defaults.period", *node.Period == 20*time.Millisecond)
	check("defaults.movable", !*node.Movable)
	check("defaults.on-resize", *node.OnResize == "none")
	check("defaults.env", *node.Env)
	check("defaults.preserve", !*node.Preserve)
	check("defaults.burst", *node.Burst == spec.Burst{By: spec.BurstAuto})
	spark, system := c.Namespaces["spark"], c.Namespaces["kube-system"]
	check("namespaces.spark.class", *spark.Class == hybrid.Sensitive)
	check("namespaces.spark.topology", *spark.Topology == hybrid.SingleNUMA)
	check("namespaces.spark.on-resize", *spark.OnResize == "signal:HUP")
	check("namespaces.kube-system.preserve", *system.Preserve)
	check("namespaces", len(c.Namespaces) == 2)
}
