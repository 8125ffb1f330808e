package kube

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Annotate sets an annotation of an object's pods in a manifest (YAML or JSON). It changes or inserts a single piece of the text, so
// comments, order and quotes remain. The manifest can contain several documents, such as the output of Helm or Kustomize, and Lists. object
// selects an object with pods, as KIND/NAME or NAME; "" selects the only object with pods. Every error wraps ErrManifest. The error also
// wraps ErrSeveral if object is "" and the manifest has several objects with pods.
func Annotate(manifest []byte, object, key, value string) ([]byte, error) {
	objects, err := podObjects(manifest)
	if err != nil {
		return nil, err
	}
	o, err := selectObject(objects, object)
	if err != nil {
		return nil, err
	}
	s, err := newSource(manifest)
	if err != nil {
		return nil, err
	}
	s.isJSON = isJSON(o.root)
	edit, err := s.editFor(o, key, value)
	if err != nil {
		return nil, err
	}
	changed := slices.Concat(manifest[:edit.from], []byte(edit.text), manifest[edit.to:])
	if json.Valid(manifest) && !json.Valid(changed) {
		return nil, fmt.Errorf("%w: it would not be JSON any more", ErrManifest)
	}
	if err := checkAnnotated(manifest, changed, o, key, value); err != nil {
		return nil, err
	}
	return changed, nil
}

// isJSON reports whether an object is written as JSON: in flow style, with keys in double quotes.
func isJSON(root *yaml.Node) bool {
	return root.Style&yaml.FlowStyle != 0 && len(root.Content) > 0 && root.Content[0].Style&yaml.DoubleQuotedStyle != 0
}

// An edit replaces a range of bytes of a text.
type edit struct {
	from, to int // offsets; to is exclusive
	text     string
}

// A source is the text of a manifest with the positions of its lines.
type source struct {
	text   []byte
	lines  []int // offset of each line
	isJSON bool
}

// newSource finds the lines of a text as the YAML parser does: lines also end with CR, NEL, LS and PS.
func newSource(text []byte) (*source, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%w: must be UTF-8", ErrManifest)
	}
	s := &source{text: text, lines: []int{0}}
	if bytes.HasPrefix(text, []byte("\ufeff")) { // the parser does not count it
		s.lines[0] = len("\ufeff")
	}
	for i, c := range string(text) {
		isCRLF := c == '\r' && i+1 < len(text) && text[i+1] == '\n'
		if strings.ContainsRune("\n\r\u0085\u2028\u2029", c) && !isCRLF {
			s.lines = append(s.lines, i+utf8.RuneLen(c))
		}
	}
	return s, nil
}

// offset returns the offset of a node. The parser counts columns in characters.
func (s *source) offset(n *yaml.Node) (int, error) {
	if n.Line < 1 || n.Line > len(s.lines) || n.Column < 1 {
		return 0, s.refuse(n, "not found")
	}
	at := s.lines[n.Line-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(s.text[at:])
		at += size
	}
	return at, nil
}

// line returns a line of the text, counted from 1, with its line break.
func (s *source) line(number int) string {
	end := len(s.text)
	if number < len(s.lines) {
		end = s.lines[number]
	}
	return string(s.text[s.lines[number-1]:end])
}

// lineBreak returns the line break that the lines of the text have.
func (s *source) lineBreak() string {
	if strings.HasSuffix(s.line(1), "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// refuse returns the error for a node that cannot be edited.
func (s *source) refuse(n *yaml.Node, why string) error {
	return fmt.Errorf("%w: line %d: %s", ErrManifest, n.Line, why)
}

// refuseAlias returns the error for an alias, such as *labels: an edit of its anchor would also change other places.
func (s *source) refuseAlias(n *yaml.Node) error {
	return s.refuse(n, "must be written out instead of the alias *"+n.Value)
}

// editFor returns the edit that sets the annotation: a replacement of its current value, or an insertion of the missing mappings and keys.
func (s *source) editFor(o *object, key, value string) (edit, error) {
	at := o.root
	path := append(slices.Clone(o.path), "annotations")
	for i, step := range path {
		name, next := entry(at, step)
		isPodMetadata := i >= len(o.path)-1
		switch {
		case at.Kind == yaml.AliasNode:
			return edit{}, s.refuseAlias(at)
		case next == nil && !isPodMetadata:
			return edit{}, fmt.Errorf("%w: %s has no %s", ErrManifest, o.name(), strings.Join(path[:i+1], "."))
		case next == nil:
			return s.insert(at, at != o.root, path[i:], key, value)
		case next.Kind == yaml.ScalarNode && next.Tag == "!!null" && isPodMetadata:
			return s.fill(at, name, next, path[i+1:], key, value)
		}
		at = next
	}
	if _, old := entry(at, key); old != nil {
		return s.replace(old, value)
	}
	return s.insert(at, true, nil, key, value)
}

// insert returns the edit that inserts the annotation, nested in the missing mappings, before the first key of a mapping. If aboveComments
// is set, it inserts the annotation above the comments of this key, so that these comments stay with the key.
func (s *source) insert(at *yaml.Node, aboveComments bool, mappings []string, key, value string) (edit, error) {
	switch {
	case at.Kind == yaml.AliasNode:
		return edit{}, s.refuseAlias(at)
	case at.Kind != yaml.MappingNode:
		return edit{}, s.refuse(at, "must be a mapping to add the annotation to")
	case at.Style&yaml.FlowStyle != 0:
		return s.insertFlow(at, mappings, key, value)
	}
	first := at.Content[0]
	from, err := s.offset(first)
	if err != nil {
		return edit{}, err
	}
	indent := strings.Repeat(" ", first.Column-1)
	lines := blockLines(mappings, key, value)
	end := s.lineBreak()
	if strings.TrimLeft(string(s.text[s.lines[first.Line-1]:from]), " ") != "" { // after a dash
		text := strings.Join(lines, end+indent) + end + indent
		return edit{from, from, text}, nil
	}
	number := first.Line
	for aboveComments && number > 1 && isComment(s.line(number-1)) {
		number--
	}
	from = s.lines[number-1]
	return edit{from, from, indent + strings.Join(lines, end+indent) + end}, nil
}

// isComment reports whether a line is empty or contains only a comment.
func isComment(line string) bool {
	text := strings.TrimSpace(line)
	return text == "" || text[0] == '#'
}

// insertFlow returns the edit that inserts the annotation in a mapping in flow style, such as {name: web}.
func (s *source) insertFlow(at *yaml.Node, mappings []string, key, value string) (edit, error) {
	text := s.flow(mappings, key, value)
	from, err := s.offset(at)
	if err != nil {
		return edit{}, err
	}
	if len(at.Content) == 0 {
		if from >= len(s.text) || s.text[from] != '{' {
			return edit{}, s.refuse(at, "must be {} to add the annotation to")
		}
		return edit{from + 1, from + 1, text}, nil
	}
	first := at.Content[0]
	if from, err = s.offset(first); err != nil {
		return edit{}, err
	}
	separator := ", "
	if before := string(s.text[s.lines[first.Line-1]:from]); first.Line > at.Line && strings.TrimSpace(before) == "" {
		separator = "," + s.lineBreak() + before
	}
	return edit{from, from, text + separator}, nil
}

// fill returns the edit that replaces the empty value of a key by the annotation, nested in mappings.
func (s *source) fill(parent, name, empty *yaml.Node, mappings []string, key, value string) (edit, error) {
	switch {
	case empty.Value != "": // null or ~
		from, err := s.offset(empty)
		if err != nil {
			return edit{}, err
		}
		if !bytes.HasPrefix(s.text[from:], []byte(empty.Value)) {
			return edit{}, s.refuse(empty, "must be a mapping or nothing")
		}
		return edit{from, from + len(empty.Value), "{" + s.flow(mappings, key, value) + "}"}, nil
	case parent.Style&yaml.FlowStyle != 0:
		return edit{}, s.refuse(name, name.Value+" is empty: remove it, or write {}")
	}
	indent := strings.Repeat(" ", name.Column+1)
	end := s.lineBreak()
	text := indent + strings.Join(blockLines(mappings, key, value), end+indent) + end
	if name.Line >= len(s.lines) { // the last line has no line break
		return edit{len(s.text), len(s.text), end + text}, nil
	}
	from := s.lines[name.Line]
	return edit{from, from, text}, nil
}

// replace returns the edit that replaces a value. The old value must be on a single line. The new value gets the quotes of the
// old value. In JSON, it gets double quotes if the old value has no quotes.
func (s *source) replace(old *yaml.Node, value string) (edit, error) {
	from, err := s.offset(old)
	if err != nil {
		return edit{}, err
	}
	rest := string(s.text[from:])
	length := 0
	switch {
	case old.Kind != yaml.ScalarNode || old.Anchor != "":
	case old.Style&yaml.DoubleQuotedStyle != 0:
		length = quotedLength(rest, '"', '\\')
		value = `"` + value + `"`
	case old.Style&yaml.SingleQuotedStyle != 0:
		length = quotedLength(rest, '\'', 0)
		value = "'" + value + "'"
	case strings.HasPrefix(rest, old.Value):
		length = len(old.Value)
		if s.isJSON { // null, a number or a boolean
			value = strconv.Quote(value)
		}
	}
	if length == 0 || strings.ContainsAny(rest[:length], "\r\n") {
		return edit{}, s.refuse(old, "must be a plain or quoted value on one line")
	}
	return edit{from, from + length, value}, nil
}

// quotedLength returns the length of the quoted text at the start of a text, or 0 if there is none. A quote after the character escape does
// not end the text. If escape is 0, there is no escape character.
func quotedLength(text string, quote, escape byte) int {
	if text == "" || text[0] != quote {
		return 0
	}
	for i := 1; i < len(text); i++ {
		switch {
		case escape != 0 && text[i] == escape:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return 0
}

// blockLines returns the lines of an annotation in block style, nested in mappings.
func blockLines(mappings []string, key, value string) (lines []string) {
	indent := ""
	for _, name := range mappings {
		lines = append(lines, indent+name+":")
		indent += "  "
	}
	return append(lines, indent+key+": "+value)
}

// flow returns an annotation in flow style, nested in mappings. It has no braces of its own.
func (s *source) flow(mappings []string, key, value string) string {
	word := func(text string) string {
		if s.isJSON {
			return strconv.Quote(text)
		}
		return text
	}
	var text strings.Builder
	for _, name := range mappings {
		text.WriteString(word(name) + ": {")
	}
	text.WriteString(word(key) + ": " + word(value) + strings.Repeat("}", len(mappings)))
	return text.String()
}

// checkAnnotated verifies that before and after differ only in the annotation. It parses both texts, because editing the text is heuristic.
func checkAnnotated(before, after []byte, o *object, key, value string) error {
	was, err := documents(before)
	if err != nil {
		return err
	}
	is, err := documents(after)
	if err != nil {
		return fmt.Errorf("%w: it would not be YAML any more: %w", ErrManifest, err)
	}
	changed := fmt.Errorf("%w: the annotation cannot be added without a change of something else", ErrManifest)
	if len(is) != len(was) {
		return changed
	}
	for i := range was {
		if i != o.document && !isEqual(was[i], is[i]) {
			return changed
		}
	}
	var old, now any
	if err := cmp.Or(was[o.document].Decode(&old), is[o.document].Decode(&now)); err != nil {
		return parseError(before, err)
	}
	if err := setAnnotation(old, o, key, value); err != nil {
		return err
	}
	if !reflect.DeepEqual(old, now) {
		return changed
	}
	return nil
}

// setAnnotation sets the annotation of an object in its decoded document.
func setAnnotation(document any, o *object, key, value string) error {
	at := document
	for _, step := range o.steps {
		switch step := step.(type) {
		case string:
			m, _ := at.(map[string]any)
			at = m[step]
		case int:
			list, _ := at.([]any)
			if step >= len(list) {
				return fmt.Errorf("%w: items: must be a list", ErrManifest)
			}
			at = list[step]
		}
	}
	m, ok := at.(map[string]any)
	for _, step := range append(slices.Clone(o.path), "annotations") {
		if !ok {
			return fmt.Errorf("%w: %s: must be a mapping", ErrManifest, step)
		}
		if m[step] == nil {
			m[step] = map[string]any{}
		}
		m, ok = m[step].(map[string]any)
	}
	if !ok {
		return fmt.Errorf("%w: annotations: must be a mapping", ErrManifest)
	}
	m[key] = value
	return nil
}

// isEqual reports whether two documents have the same nodes.
func isEqual(a, b *yaml.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind == b.Kind && a.Tag == b.Tag && a.Value == b.Value && a.Anchor == b.Anchor && slices.EqualFunc(a.Content, b.Content, isEqual)
}
