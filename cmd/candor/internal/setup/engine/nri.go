package engine

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/pelletier/go-toml/v2"
)

// NRI enables containerd's plugin interface, which is off by default before containerd 2.0. NRI is no runtime, but a Setup edits and
// restores containerd's configuration file in the same way as for a runtime.
var NRI = Engine{
	Name:   "nri",
	File:   "/etc/containerd/config.toml",
	Then:   "systemctl restart containerd",
	add:    enableNRI,
	has:    hasEnabledNRI,
	remove: disableNRI,

	ThenUndo: "systemctl restart containerd",
}

const nriPlugin = "io.containerd.nri.v1.nri"

// The lines that candor writes. The comment nriChanged marks a line that candor has changed.
const (
	nriBegin   = "# begin candor-nri: written by candor setup node, which removes it with --undo"
	nriEnd     = "# end candor-nri"
	nriChanged = "# candor setup node: was true"
)

var (
	nriHeader   = regexp.MustCompile(`(?m)^[ \t]*\[plugins\.["']io\.containerd\.nri\.v1\.nri["']\][ \t]*(#.*)?$`)
	tableHeader = regexp.MustCompile(`(?m)^[ \t]*\[`)
	nriDisabled = regexp.MustCompile(`(?m)^([ \t]*disable[ \t]*=[ \t]*)true[ \t]*$`)
	nriEnabled  = regexp.MustCompile(`(?m)^([ \t]*disable[ \t]*=[ \t]*)false ` + regexp.QuoteMeta(nriChanged) + `$`)
)

// isNRIEnabled reports whether a configuration enables NRI. exists is false if the configuration does not have the setting.
func isNRIEnabled(text []byte) (isEnabled, exists bool, err error) {
	var head struct {
		Version int
		Plugins map[string]any
	}
	if err := toml.Unmarshal(text, &head); err != nil {
		return false, false, fmt.Errorf("not TOML: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return false, false, errors.New("the file is missing or empty: create it with containerd config default")
	}
	if head.Version != 2 {
		return false, false, fmt.Errorf("version %d: must be 2, the version of containerd before 2.0", head.Version)
	}
	disable, exists := table(head.Plugins, nriPlugin)["disable"].(bool)
	return exists && !disable, exists, nil
}

func enableNRI(text []byte, _ *Setup) ([]byte, error) {
	isEnabled, exists, err := isNRIEnabled(text)
	switch {
	case err != nil || isEnabled:
		return bytes.Clone(text), err
	case exists:
		return replaceInNRI(text, nriDisabled, "${1}false "+nriChanged)
	case nriHeader.Match(text):
		return nil, fmt.Errorf("the table of %s has no disable: add disable = false to it", nriPlugin)
	}
	rest := text
	if !bytes.HasSuffix(rest, []byte("\n")) {
		rest = append(slices.Clone(rest), '\n')
	}
	block := fmt.Sprintf("%s\n[plugins.%q]\ndisable = false\n%s\n", nriBegin, nriPlugin, nriEnd)
	out := slices.Concat(rest, []byte(block))
	return out, check(out)
}

// replaceInNRI replaces a line in the table of the NRI plugin.
func replaceInNRI(text []byte, line *regexp.Regexp, by string) ([]byte, error) {
	at := nriHeader.FindIndex(text)
	if at == nil {
		return nil, fmt.Errorf("the setting disable of %s is in no table of its own: set it to false by hand", nriPlugin)
	}
	end := len(text)
	if next := tableHeader.FindIndex(text[at[1]:]); next != nil {
		end = at[1] + next[0]
	}
	changed := line.ReplaceAll(text[at[1]:end], []byte(by))
	if bytes.Equal(changed, text[at[1]:end]) {
		return nil, fmt.Errorf("the setting disable of %s is on no line of its own: set it to false by hand", nriPlugin)
	}
	out := slices.Concat(text[:at[1]], changed, text[end:])
	return out, check(out)
}

func hasEnabledNRI(text []byte, _ *Setup) (bool, error) {
	return bytes.Contains(text, []byte(nriBegin)) || nriEnabled.Match(text), nil
}

// disableNRI removes candor's lines, or restores the line that candor has changed.
func disableNRI(text []byte, _ *record, _ *Setup) ([]byte, error) {
	before, after, found := bytes.Cut(text, []byte(nriBegin))
	if !found {
		return replaceInNRI(text, nriEnabled, "${1}true")
	}
	_, after, found = bytes.Cut(after, []byte(nriEnd))
	if !found {
		return nil, fmt.Errorf("%q without %q", nriBegin, nriEnd)
	}
	out := slices.Concat(before, bytes.TrimPrefix(after, []byte("\n")))
	return out, check(out)
}

// IsEnabled reports whether a configuration of containerd before 2.0 enables NRI. For a configuration of a later version, it
// returns true without reading the setting, because NRI is on by default there.
func (s *Setup) IsEnabled() (bool, error) {
	text, missing, err := s.read()
	if err != nil || missing {
		return false, err
	}
	var head struct{ Version int }
	if err := toml.Unmarshal(text, &head); err != nil {
		return false, fmt.Errorf("%w %s: not TOML: %w", ErrBadFile, s.File, err)
	}
	if head.Version > 2 {
		return true, nil
	}
	isEnabled, _, err := isNRIEnabled(text)
	if err != nil {
		err = fmt.Errorf("%w %s: %w", ErrBadFile, s.File, err)
	}
	return isEnabled, err
}
