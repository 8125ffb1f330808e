package engine

import (
	"bytes"
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
	tableHeader = regexp.MustCompile(`(?m)^[ \t]*\[`)
	nriDisabled = regexp.MustCompile(`(?m)^([ \t]*disable[ \t]*=[ \t]*)true[ \t]*$`)
	nriEnabled  = regexp.MustCompile(`(?m)^([ \t]*disable[ \t]*=[ \t]*)false ` + regexp.QuoteMeta(nriChanged) + `$`)
)

// nriName returns the name of the NRI plugin in a configuration. Without a version, the configuration has version 1, in which plugins
// have short names (GetVersion and Decode in services/server/config, containerd 1.7).
func nriName(version int) string {
	if version <= 1 {
		return "nri"
	}
	return nriPlugin
}

// An nriConfig has the settings for NRI in a configuration of containerd before 2.0.
type nriConfig struct {
	plugin      string // name of the NRI plugin
	isEnabled   bool
	hasDisable  bool // the plugin has the setting disable
	isListedOff bool // the plugin is in disabled_plugins, which keeps it off
	hasImports  bool // the configuration imports files
}

// readNRI reads a configuration of containerd before 2.0.
func readNRI(text []byte) (c nriConfig, err error) {
	var head struct {
		Version  int
		Imports  []string
		Disabled []string `toml:"disabled_plugins"`
		Plugins  map[string]any
	}
	if err := toml.Unmarshal(text, &head); err != nil {
		return c, fmt.Errorf("not TOML: %w", err)
	}
	if head.Version < 0 || head.Version > 2 {
		return c, fmt.Errorf("version %d: must be 1 or 2, the versions of containerd before 2.0", head.Version)
	}
	c.plugin = nriName(head.Version)
	disable, hasDisable := table(head.Plugins, c.plugin)["disable"].(bool)
	c.hasDisable, c.isListedOff, c.hasImports = hasDisable, slices.Contains(head.Disabled, c.plugin), len(head.Imports) > 0
	c.isEnabled = hasDisable && !disable && !c.isListedOff
	return c, nil
}

// nriHeader returns the header of the table of the NRI plugin.
func nriHeader(plugin string) *regexp.Regexp {
	name := regexp.QuoteMeta(plugin)
	forms := `["']` + name + `["']`
	if plugin != nriPlugin { // without quotes, the dots of the long name would separate tables
		forms += "|" + name
	}
	return regexp.MustCompile(`(?m)^[ \t]*\[plugins\.(?:` + forms + `)\][ \t]*(#.*)?$`)
}

// enableNRI enables NRI. In a file that is missing or blank, it also sets version 2: the other settings have the same defaults in
// versions 1 and 2.
func enableNRI(text []byte, _ *Setup) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("version = 2\n")
	}
	c, err := readNRI(text)
	switch {
	case err != nil || c.isEnabled:
		return bytes.Clone(text), err
	case c.isListedOff:
		return nil, fmt.Errorf("disabled_plugins has %q: remove it from the list", c.plugin)
	case c.hasImports && c.plugin != nriPlugin: // an imported file can set version 2, with which containerd refuses short names
		return nil, fmt.Errorf("version 1 with imports: enable NRI by hand, with disable = false in [plugins.%s]", c.plugin)
	case c.hasDisable:
		return replaceInNRI(text, c.plugin, nriDisabled, "${1}false "+nriChanged)
	case nriHeader(c.plugin).Match(text):
		return nil, fmt.Errorf("the table of %s has no disable: add disable = false to it", c.plugin)
	}
	rest := text
	if !bytes.HasSuffix(rest, []byte("\n")) {
		rest = append(slices.Clone(rest), '\n')
	}
	block := fmt.Sprintf("%s\n[plugins.%q]\ndisable = false\n%s\n", nriBegin, c.plugin, nriEnd)
	out := slices.Concat(rest, []byte(block))
	return out, check(out)
}

// replaceInNRI replaces a line in the table of the NRI plugin.
func replaceInNRI(text []byte, plugin string, line *regexp.Regexp, by string) ([]byte, error) {
	at := nriHeader(plugin).FindIndex(text)
	if at == nil {
		return nil, fmt.Errorf("the setting disable of %s is in no table of its own: set it to false by hand", plugin)
	}
	end := len(text)
	if next := tableHeader.FindIndex(text[at[1]:]); next != nil {
		end = at[1] + next[0]
	}
	changed := line.ReplaceAll(text[at[1]:end], []byte(by))
	if bytes.Equal(changed, text[at[1]:end]) {
		return nil, fmt.Errorf("the setting disable of %s is on no line of its own: set it to false by hand", plugin)
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
		var head struct{ Version int }
		if err := toml.Unmarshal(text, &head); err != nil {
			return nil, fmt.Errorf("not TOML: %w", err)
		}
		return replaceInNRI(text, nriName(head.Version), nriEnabled, "${1}true")
	}
	_, after, found = bytes.Cut(after, []byte(nriEnd))
	if !found {
		return nil, fmt.Errorf("%q without %q", nriBegin, nriEnd)
	}
	out := slices.Concat(before, bytes.TrimPrefix(after, []byte("\n")))
	return out, check(out)
}

// IsEnabled reports whether a configuration of containerd before 2.0 enables NRI.
func (s *Setup) IsEnabled() (bool, error) {
	text, missing, err := s.read()
	if err != nil || missing {
		return false, err
	}
	c, err := readNRI(text)
	if err != nil {
		err = fmt.Errorf("%w %s: %w", ErrBadFile, s.File, err)
	}
	return c.isEnabled, err
}
