// Package deploy contains the files of an installation: the chart, the systemd unit, alerts and the dashboard. Its tests compare
// them with candor.
package deploy

import _ "embed" // the unit

// Unit is the systemd unit of candor nri.
//
//go:embed systemd/candor-nri.service
var Unit string
