package main

import (
	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/ledger"
)

// A ledgerDocument is the JSON form of a ledgerReport. Scripts depend on this form, which docs/reference/json.md describes.
type ledgerDocument struct {
	Partial      bool               `json:"partial,omitempty"` // a signal ended the measurement early
	During       float64            `json:"duringSeconds"`
	Method       ledger.Method      `json:"method"`
	Refusal      string             `json:"refusal,omitempty"`
	Failure      string             `json:"failure,omitempty"`
	Containers   []ledgerContainer  `json:"containers"`
	Unattributed map[string]float64 `json:"unattributedMilli"` // CPU use for no known container, by daemon
}

type ledgerContainer struct {
	Name string `json:"name"`
	podname.Parts
	ID      string                `json:"id"`
	Runtime string                `json:"runtime,omitempty"`
	Limit   hybrid.Milli          `json:"limitMilli"` // 0: no limit
	Own     float64               `json:"ownMilli"`
	Charged float64               `json:"helpersMilli"`
	Credit  *float64              `json:"creditMilli,omitempty"`
	Uses    []helpers.UseDocument `json:"helpers"`
}

// document returns the JSON form of a report.
func (r *ledgerReport) document() ledgerDocument {
	d := ledgerDocument{Partial: r.Partial, During: r.During, Method: r.Method, Refusal: r.Refusal, Failure: r.Failure,
		Containers: []ledgerContainer{}, Unattributed: map[string]float64{}}
	for i := range r.Containers {
		row := &r.Containers[i]
		c := ledgerContainer{Name: row.Name, Parts: podname.PartsOf(row.Name, row.ID), ID: row.ID, Runtime: row.Runtime, Limit: row.Limit,
			Own: jsonout.Milli(row.Own), Charged: jsonout.Milli(row.Charged), Uses: helpers.Documents(row.Uses)}
		if row.Credit != nil {
			c.Credit = new(jsonout.Milli(*row.Credit))
		}
		d.Containers = append(d.Containers, c)
	}
	for daemon, cpus := range r.Unattributed {
		d.Unattributed[daemon] = jsonout.Milli(cpus)
	}
	return d
}
