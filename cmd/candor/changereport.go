package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/internal/texttable"
)

// A changeRow is a value that a command changes.
type changeRow struct {
	What   string `json:"what"`
	Before string `json:"before"` // "": no value
	After  string `json:"after"`
}

// A changeReport lists the changes that were made or planned.
type changeReport struct {
	Changes []changeRow `json:"changes"`
	Notes   []string    `json:"notes,omitempty"`
	DryRun  bool        `json:"dryRun"`
}

// add adds a change, unless the report already has a change of the same value to the same result. An operation that is tried
// twice thus reports its changes only once.
func (r *changeReport) add(what, before, after string) {
	for _, c := range r.Changes {
		if c.What == what && c.After == after {
			return
		}
	}
	r.Changes = append(r.Changes, changeRow{what, before, after})
}

// addNote adds a note, unless it is already in the list.
func (r *changeReport) addNote(note string) {
	if !slices.Contains(r.Notes, note) {
		r.Notes = append(r.Notes, note)
	}
}

// addEngine adds the change of an engine's file, with the next step as a note.
func (r *changeReport) addEngine(s *engine.Setup, change *engine.Change, before, after, then string) {
	if change.Nothing() {
		return
	}
	r.add("setup "+s.Engine.Name+" "+change.File, before, after)
	r.addNote(s.Engine.Name + ": " + then)
}

// stopService stops and disables a service, and adds the change. If dry is true, it only adds the change.
func (r *changeReport) stopService(service *setup.Service, dry bool) error {
	state, err := service.State()
	if err != nil || state.IsOff() {
		return err
	}
	if !dry {
		if err := service.Off(); err != nil {
			return err
		}
	}
	r.add(service.Unit, state.String(), "inactive, disabled")
	return nil
}

// undoEngine undoes the setup of an engine, and adds the change. If dry is true, it only adds the change.
func (r *changeReport) undoEngine(s *engine.Setup, dry bool) error {
	change, err := undoSetup(s, dry)
	if err == nil {
		r.addEngine(s, &change, stateDone, "undone", s.Engine.ThenUndo)
	}
	return err
}

// undoSetup undoes the setup of an engine in the file that candor setup has recorded or, without a record, in
// the engine's usual file.
func undoSetup(s *engine.Setup, dry bool) (change engine.Change, err error) {
	if err := s.UseRecordedFile(); err != nil {
		return change, err
	}
	if err := findRuntimes(s, true); err != nil {
		return change, err
	}
	return s.Undo(dry)
}

// write writes the changes as a table, and the notes below the table. Without changes, it writes the text in nothing instead of
// the table.
func (r *changeReport) write(w io.Writer, nothing string) error {
	if len(r.Changes) == 0 {
		fmt.Fprintln(w, nothing)
	} else {
		t := texttable.Table{Titles: []string{"WHAT", "BEFORE", "AFTER"}}
		for _, c := range r.Changes {
			t.Rows = append(t.Rows, []string{c.What, orDash(c.Before), orDash(c.After)})
		}
		if err := t.Write(w, 0); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, "Note:", note+".")
	}
	return nil
}
