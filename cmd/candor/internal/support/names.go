package support

import (
	"bytes"
	_ "embed" // words.txt
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/candor-project/candor/cmd/candor/internal/doctor"
	"github.com/candor-project/candor/internal/jsonout"
)

// names anonymizes an archive: it replaces the names of containers, pods, cgroups and machines by texts such as name-1. A name
// has the same replacement in the whole archive. Each text that is not known to be harmless counts as a name, so that a new field
// or message cannot disclose a name. If isOn is false, only the commands of on-resize are removed.
type names struct {
	isOn bool
	of   map[string]string // replacement by name
}

func newNames(isOn bool) *names { return &names{isOn, map[string]string{}} }

// harmless are fields whose values are words of Candor, amounts or lists of CPUs. Only an invalid configuration can have other values.
var harmless = wordSet(`class policy topology state phase pool view viewSeen runtime algorithm minShared helpers helperLevel burst burstBy
	onResize imageSettings limit request cpu period env preserve movable repairEvery headStart publish recordHistogram
	cpus exclusive fractional shared usable reserved online offline isolated lost time level`)

// common are names of cgroups, and elements of paths, that every machine can have.
var common = wordSet(`candor candor.slice system.slice user.slice machine.slice init.scope kubepods kubepods.slice besteffort burstable
	kubepods-besteffort.slice kubepods-burstable.slice docker default kube-system
	dev etc home lib opt proc run root srv sys tmp usr var bin sbin local fs cgroup self unified cpu cpuset cpu,cpuacct
	containerd config.toml conf.d crio crio.conf crio.conf.d kubelet config.yaml nri nri.sock nri.yaml host.json state.json containerd.service`)

// vocabulary contains the words of candor's own texts, and of the errors of the kernel and of Go's standard library, in lower
// case. No other word remains in a sentence of an anonymized archive. It is built at the first use, so that the agent needs no
// memory for it.
var vocabulary = sync.OnceValue(newVocabulary)

//go:embed words.txt
var words string

func newVocabulary() map[string]bool {
	set := wordSet(words)
	maps.Copy(set, wordSet(strings.ToLower(libraryWords)))
	for _, w := range slices.Collect(maps.Keys(common)) {
		set[strings.ToLower(w)] = true
	}
	for number := syscall.Errno(1); number < 134; number++ {
		maps.Copy(set, wordSet(strings.ToLower(number.Error())))
	}
	return set
}

// libraryWords are words in errors of libraries.
const libraryWords = `open read write stat lstat readlink openat mkdir rename fork exec exit status signal killed terminated context canceled
	deadline exceeded EOF unexpected invalid character looking for beginning of value after object key array top-level string number unmarshal
	cannot into Go type yaml line column mapping values are not allowed in this did find expected unknown field toml dial tcp unix lookup timeout
	DEBUG INFO WARN ERROR connection refused reset by peer tls certificate i/o use of closed network file already exists does exist`

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
			if key == "namespaces" || !vocabulary()[strings.ToLower(k)] { // the name of a namespace, or an unknown field
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
		switch {
		case !n.isOn:
			return v
		case harmless[key]:
			return n.text(v)
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

const punctuation = ".:@"

// pattern returns a function that compiles a regular expression at its first call, so that the agent needs no memory for it. The
// repetitions in plain need the most.
func pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

var (
	quoted = pattern(`"[^"]*"`)
	word   = pattern(`[\p{L}\p{M}\p{N}_.:@-]+`)
	// plain matches amounts, versions and lists of CPUs. A number has at most 8 digits: longer numbers can be account numbers.
	plain = pattern(`^v?[0-9]{1,8}(\.[0-9]{1,8}){0,2}(ns|µs|us|ms|s|m|h|%)?$|^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?){0,200}$|` +
		`^[0-9]{1,2}\.[0-9]{1,3}\.[0-9]{1,4}-[0-9]{1,4}(-amd64|-arm64|-generic)$`)
	// release matches a version with a suffix, such as that of a kernel.
	release = pattern(`^(v?[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}-)(.+)$`)
	// address matches words with addresses of the protocols IP version 4 and 6 and Ethernet.
	address = pattern(`[0-9]+(\.[0-9]+){3}|^[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*$`)
	// instant matches a time of slog's handlers (RFC 3339).
	instant = pattern(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(Z|[+-][0-9]{2}:[0-9]{2})$`)
)

// text replaces all quoted texts in a sentence, and all words that are known names or are not in the vocabulary.
func (n *names) text(sentence string) string {
	if !n.isOn {
		return sentence
	}
	sentence = quoted().ReplaceAllStringFunc(sentence, func(q string) string { return `"` + n.quoted(strings.Trim(q, `"`)) + `"` })
	return word().ReplaceAllStringFunc(sentence, n.word)
}

// quoted replaces a quoted text. A path retains its common elements.
func (n *names) quoted(text string) string {
	if strings.HasPrefix(text, "/") {
		return n.path(text)
	}
	return n.alias(text)
}

// word replaces a word, or the words between its punctuation.
func (n *names) word(text string) string {
	core := strings.Trim(text, punctuation+"-_")
	switch {
	case n.of[text] != "":
		return n.of[text]
	case address().MatchString(text):
		return n.alias(text)
	case core != text && core != "":
		i := strings.Index(text, core)
		return text[:i] + n.word(core) + text[i+len(core):]
	case core == "", vocabulary()[strings.ToLower(text)], plain().MatchString(text), n.isAlias(text):
		return text
	}
	if match := release().FindStringSubmatch(text); match != nil {
		return match[1] + n.word(match[2])
	}
	if i := strings.LastIndexAny(text, punctuation); i >= 0 {
		return n.word(text[:i]) + text[i:i+1] + n.word(text[i+1:])
	}
	return n.alias(text)
}

// aliasForm matches replacements of names.
var aliasForm = pattern(`^name-([0-9]{1,9})$`)

// isAlias reports whether a text is a replacement that this archive already uses.
func (n *names) isAlias(text string) bool {
	match := aliasForm().FindStringSubmatch(text)
	if match == nil {
		return false
	}
	number, _ := strconv.Atoi(match[1])
	return number <= len(n.of)
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

// log replaces the names in a log. It replaces a line that is neither slog's text nor JSON by "(line omitted)".
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
			if a := &line[i]; named[a.key] {
				a.value = n.path(a.value)
			}
		}
		lines = append(lines, line)
	}
	var out bytes.Buffer
	for _, line := range lines { // after the first loop, the names of all lines are known
		for i, a := range line {
			if !named[a.key] && !plain().MatchString(a.value) && !instant().MatchString(a.value) {
				a.value = n.text(a.value)
			}
			if i > 0 {
				out.WriteByte(' ')
			}
			fmt.Fprintf(&out, "%s=%s", quoteIfNeeded(n.text(a.key)), quoteIfNeeded(a.value))
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// named are attributes whose values are names, even if a value is a number or a word of the vocabulary.
var named = wordSet("container id pod namespace name group cgroup node hinted sandbox preserved")

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
