// Package deploy contains the files of an installation: the chart, the systemd units, alerts and the dashboard. Its tests compare
// them with candor.
package deploy

import _ "embed" // the units

// Unit is the systemd unit of candor nri.
//
//go:embed systemd/candor-nri.service
var Unit string

// Program is the path of candor in the units.
const Program = "/usr/local/bin/candor"

// ViewUnit is the systemd unit of candor view refresh.
//
//go:embed systemd/candor-view.service
var ViewUnit string
