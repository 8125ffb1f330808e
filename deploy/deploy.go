// Package deploy has what an administrator installs: the chart, the systemd unit, alerts and the dashboard. Its
// tests hold them against candor itself.
package deploy

import _ "embed" // the unit

// Unit is the systemd unit of candor nri.
//
//go:embed systemd/candor-nri.service
var Unit string
