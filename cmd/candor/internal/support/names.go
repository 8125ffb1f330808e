package support

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/cmd/candor/internal/doctor"
	"github.com/candor-project/candor/internal/jsonout"
)

// A names replaces names by other texts, a name by the same text in the whole archive. It replaces each text that is not known to be
// harmless, so that a new field cannot disclose a name. If isOn is false, it only removes the commands of on-resize.
type names struct {
	isOn bool
	of   map[string]string // replacement by name
}

func newNames(isOn bool) *names { return &names{isOn, map[string]string{}} }

// harmless are fields whose values are words of Candor, amounts or lists of CPUs.
var harmless = wordSet(`class policy topology state phase pool view viewSeen runtime algorithm minShared helpers helperLevel burst burstBy
	onResize imageSettings limit request cpu period env preserve movable repairEvery headStart publish recordHistogram
	cpus exclusive fractional shared usable reserved online offline isolated lost time level`)

// common are names of groups that every machine can have.
var common = wordSet(`candor candor.slice system.slice user.slice machine.slice init.scope kubepods kubepods.slice besteffort burstable
	kubepods-besteffort.slice kubepods-burstable.slice docker default kube-system`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}

// alias returns the replacement of a name.
func (n *names) alias(name string) string {
	if !n.isOn || name == "" || common[name] {
		return name
	}
	if n.of[name] == "" {
		n.of[name] = fmt.Sprintf("name-%d", len(n.of)+1)
	}
	return n.of[name]
}

// path replaces each element of a path, such as namespace/pod/container or a cgroup.
func (n *names) path(text string) string {
	parts := strings.Split(text, "/")
	for i := range parts {
		parts[i] = n.alias(parts[i])
	}
	return strings.Join(parts, "/")
}

// value replaces the names in a JSON value. key is the name of the field that holds the value.
func (n *names) value(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			name := k
			if key == "namespaces" {
				name = n.alias(k)
			}
			out[name] = n.value(k, v[k])
		}
		return out
	case []any:
		for i := range v {
			v[i] = n.value(key, v[i])
		}
		return v
	case string:
		if key == "onResize" {
			v = withoutCommand(v)
		}
		if !n.isOn || harmless[key] {
			return v
		}
		return n.path(v)
	default:
		return v
	}
}

// withoutCommand removes the command from a method of on-resize.
func withoutCommand(method string) string {
	if strings.HasPrefix(method, "exec:") {
		return "exec"
	}
	return method
}

var (
	quoted = regexp.MustCompile(`"[^"]*"`)
	word   = regexp.MustCompile(`[A-Za-z0-9_.:@-]+`)
)

// text replaces the known names and all quoted texts in a sentence.
func (n *names) text(sentence string) string {
	if !n.isOn {
		return sentence
	}
	sentence = quoted.ReplaceAllStringFunc(sentence, func(q string) string { return `"` + n.alias(strings.Trim(q, `"`)) + `"` })
	return word.ReplaceAllStringFunc(sentence, n.word)
}

// word replaces a word that is a known name, or the known names between its punctuation.
func (n *names) word(text string) string {
	if to := n.of[text]; to != "" {
		return to
	}
	const punctuation = ".:@"
	i := strings.LastIndexAny(text, punctuation)
	if i < 0 {
		return text
	}
	return n.word(text[:i]) + text[i:i+1] + n.word(text[i+1:])
}

// doctor replaces the names in the texts of a report.
func (n *names) doctor(r *doctor.Report) doctor.Report {
	out := *r
	out.Checks = slices.Clone(r.Checks)
	for i := range out.Checks {
		row := &out.Checks[i]
		row.Found, row.Next = n.text(row.Found), n.text(row.Next)
	}
	return out
}

// A logLine is a line of a log: attributes, in their order.
type logLine []struct{ key, value string }

// log replaces the names in a log. Of a line that is neither slog's text nor JSON, nothing remains.
func (n *names) log(text []byte) []byte {
	if !n.isOn {
		return text
	}
	var lines []logLine
	for raw := range bytes.Lines(text) {
		line, ok := parseLogLine(strings.TrimRight(string(raw), "\r\n"))
		if !ok {
			line = logLine{{"msg", "(line omitted)"}}
		}
		for i := range line {
			if a := &line[i]; a.key != "msg" && !harmless[a.key] && !isPlain(a.key, a.value) {
				a.value = n.path(a.value)
			}
		}
		lines = append(lines, line)
	}
	var out bytes.Buffer
	for _, line := range lines { // the names of all lines are known now
		for i, a := range line {
			if a.key == "msg" {
				a.value = n.text(a.value)
			}
			if i > 0 {
				out.WriteByte(' ')
			}
			fmt.Fprintf(&out, "%s=%s", quoteIfNeeded(a.key), quoteIfNeeded(a.value))
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// named are attributes whose values are names, even if they are numbers.
var named = wordSet("container id pod namespace name group cgroup node sandbox")

var plain = regexp.MustCompile(`^[0-9.]{1,8}(ns|µs|ms|s|m|h|%)?$|^[0-9]{1,4}([,-][0-9]{1,4}){0,200}$`)

// isPlain reports whether the value of an attribute is an amount or a list of CPUs.
func isPlain(key, value string) bool { return !named[key] && plain.MatchString(value) }

func quoteIfNeeded(text string) string {
	if text == "" || strings.ContainsAny(text, " =\"\n\t") {
		return strconv.Quote(text)
	}
	return text
}

// parseLogLine parses a line of slog's handlers for text and JSON.
func parseLogLine(text string) (line logLine, ok bool) {
	if strings.HasPrefix(text, "{") {
		return parseJSONLine(text)
	}
	for text != "" {
		var key, value string
		if key, text, ok = logWord(text); !ok || !strings.HasPrefix(text, "=") {
			return nil, false
		}
		if value, text, ok = logWord(text[1:]); !ok {
			return nil, false
		}
		line = append(line, struct{ key, value string }{key, value})
		text = strings.TrimPrefix(text, " ")
	}
	return line, len(line) > 0
}

// logWord cuts a word, which can be quoted, off the beginning of a text.
func logWord(text string) (first, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, " =")
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:], true
	}
	prefix, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", false
	}
	first, err = strconv.Unquote(prefix)
	return first, text[len(prefix):], err == nil
}

func parseJSONLine(text string) (line logLine, ok bool) {
	var fields map[string]any
	if json.Unmarshal([]byte(text), &fields) != nil {
		return nil, false
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value, isText := fields[key].(string)
		if !isText {
			var b strings.Builder
			if jsonout.WriteLine(&b, fields[key]) != nil {
				return nil, false
			}
			value = strings.TrimSpace(b.String())
		}
		line = append(line, struct{ key, value string }{key, value})
	}
	return line, true
}
