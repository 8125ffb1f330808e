package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
)

// Docker has its runtimes in daemon.json, which it reads again on a reload. A reload adds runtimes, but does not remove the
// runtimes and the default runtime that daemon.json no longer has (reloadPlatform in daemon/reload_unix.go of Docker 20.10
// and 25).
var Docker = Engine{
	Name:   "docker",
	File:   "/etc/docker/daemon.json",
	Then:   "systemctl reload docker",
	add:    addToDocker,
	has:    hasDocker,
	remove: removeFromDocker,

	ThenUndo: "systemctl restart docker (after a reload, it still has the runtimes)",
	canStart: (*Setup).canStart,
}

func addToDocker(text []byte, s *Setup) ([]byte, error) {
	all, runtimes, err := readDocker(text)
	if err != nil {
		return nil, err
	}
	for _, r := range s.Runtimes {
		want, err := json.Marshal(map[string]string{"path": r.Path})
		if err != nil {
			return nil, err
		}
		if has := runtimes.get(r.Name); has != nil {
			if pathOf(has) != r.Path {
				return nil, fmt.Errorf("another runtime %q exists: remove it first", r.Name)
			}
			continue
		}
		runtimes.set(r.Name, want)
	}
	all.set("runtimes", runtimes.text())
	if s.Default {
		all.set("default-runtime", quoted(s.Runtimes[0].Name))
	}
	return all.layout(text)
}

// pathOf returns the path of a runtime's program, or "".
func pathOf(runtime json.RawMessage) string {
	var is struct{ Path string }
	if json.Unmarshal(runtime, &is) != nil {
		return ""
	}
	return is.Path
}

// isOurs reports whether the program of a runtime has candor's file name, in any directory, because candor can have moved since a
// setup. A runtime whose program the user has replaced is not ours.
func isOurs(runtimes fields, r Runtime) bool {
	return filepath.Base(pathOf(runtimes.get(r.Name))) == filepath.Base(r.Path)
}

func hasDocker(text []byte, s *Setup) (bool, error) {
	_, runtimes, err := readDocker(text)
	return slices.ContainsFunc(s.Runtimes, func(r Runtime) bool { return isOurs(runtimes, r) }), err
}

func removeFromDocker(text []byte, before *record, s *Setup) ([]byte, error) {
	if before == nil {
		return nil, fmt.Errorf("the file has candor's runtimes, and the record of its former content, %s, is missing: remove candor's runtimes by hand, "+
			"and default-runtime if it is candor", s.Record)
	}
	all, runtimes, err := readDocker(text)
	if err != nil {
		return nil, err
	}
	old, oldRuntimes, err := readDocker(before.Before)
	if err != nil {
		return nil, err
	}
	for _, r := range s.Runtimes {
		if oldRuntimes.get(r.Name) == nil && isOurs(runtimes, r) {
			runtimes.remove(r.Name)
		}
	}
	all.set("runtimes", runtimes.text())
	if len(runtimes) == 0 && old.get("runtimes") == nil {
		all.remove("runtimes")
	}
	if s.lacksDefault(all, runtimes) {
		all.set("default-runtime", old.get("default-runtime"))
		if was := old.get("default-runtime"); was == nil || hasGone(was, oldRuntimes, runtimes) || s.lacksDefault(all, runtimes) {
			all.remove("default-runtime")
		}
	}
	return all.layout(text)
}

// lacksDefault reports whether the default runtime is one of candor's runtimes, but the configuration does not contain this runtime. The
// engine would not start with such a default.
func (s *Setup) lacksDefault(all, runtimes fields) bool {
	return slices.ContainsFunc(s.Runtimes, func(r Runtime) bool {
		return string(all.get("default-runtime")) == string(quoted(r.Name)) && runtimes.get(r.Name) == nil
	})
}

// canStart reports whether Docker could start with a former configuration. Docker does not start if the default is a runtime of
// candor that the configuration lacks.
func (s *Setup) canStart(text []byte) bool {
	all, runtimes, err := readDocker(text)
	return err == nil && !s.lacksDefault(all, runtimes)
}

// hasGone reports whether a runtime was configured before and no longer is. The engine would not start with this runtime as its default.
func hasGone(name json.RawMessage, before, now fields) bool {
	var text string
	return json.Unmarshal(name, &text) == nil && before.get(text) != nil && now.get(text) == nil
}

func readDocker(text []byte) (all, runtimes fields, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil, nil
	}
	if all, err = readFields(text); err != nil {
		return nil, nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if raw := all.get("runtimes"); raw != nil {
		if runtimes, err = readFields(raw); err != nil {
			return nil, nil, fmt.Errorf("runtimes: not a JSON object: %w", err)
		}
	}
	return all, runtimes, nil
}

// fields are the fields of a JSON object in the order of the text.
type fields []field

type field struct {
	key   string
	value json.RawMessage
}

// readFields reads a JSON object. A duplicate key is an error, because engines may take the first or the last value.
func readFields(text []byte) (fields, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil {
		return nil, err
	} else if open != json.Delim('{') {
		return nil, fmt.Errorf("starts with %v", open)
	}
	f := fields{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if f.get(key.(string)) != nil {
			return nil, fmt.Errorf("duplicate key %.60q", key)
		}
		f = append(f, field{key.(string), value})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("text follows the end of the object")
	}
	return f, nil
}

func (f fields) get(key string) json.RawMessage {
	for _, one := range f {
		if one.key == key {
			return one.value
		}
	}
	return nil
}

func (f *fields) set(key string, value json.RawMessage) {
	for i := range *f {
		if (*f)[i].key == key {
			(*f)[i].value = value
			return
		}
	}
	*f = append(*f, field{key, value})
}

func (f *fields) remove(key string) {
	for i := range *f {
		if (*f)[i].key == key {
			*f = append((*f)[:i:i], (*f)[i+1:]...)
			return
		}
	}
}

// text writes the object as a single line.
func (f fields) text() json.RawMessage {
	out := []byte("{")
	for i, one := range f {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, quoted(one.key)...), ':'), one.value...)
	}
	return append(out, '}')
}

// layout writes the object over several lines, with the indentation of the former text. If the former text has the same content,
// layout returns it unchanged.
func (f fields) layout(like []byte) ([]byte, error) {
	var was, is bytes.Buffer
	if json.Compact(&was, like) == nil && json.Compact(&is, f.text()) == nil && bytes.Equal(was.Bytes(), is.Bytes()) {
		return like, nil
	}
	indent := "  "
	if lines := bytes.SplitN(like, []byte("\n"), 3); len(lines) > 1 {
		if n := len(lines[1]) - len(bytes.TrimLeft(lines[1], " \t")); n > 0 {
			indent = string(lines[1][:n])
		}
	}
	var out bytes.Buffer
	if err := json.Indent(&out, f.text(), "", indent); err != nil {
		return nil, err
	}
	return append(out.Bytes(), '\n'), nil
}

// quoted writes a string as JSON, without the escapes for HTML.
func quoted(s string) json.RawMessage {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
