package main

import (
	"encoding"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/simulate"
	"github.com/candor-project/candor/view"
)

// A word is a flag value with a fixed list of words.
type word interface {
	encoding.TextUnmarshaler
	fmt.Stringer
}

// The accepted words of flags, for help and completion.
var (
	classWords     = []string{"sensitive", "flexible"}
	policyWords    = []string{"strict", "best-effort"}
	algorithmWords = []string{"candor", "paper"}
	topologyWords  = []string{"prefer", "single-numa", "single-l3", "whole-cores", "none"}
)

// wordFlag adds a flag whose value is a word of a list, with completion. The value of v is the default.
func wordFlag(cmd *cobra.Command, v word, words []string, name, shorthand, usage string) {
	cmd.Flags().VarP(textFlag{v, "word"}, name, shorthand, usage+" ["+strings.Join(words, "|")+"]")
	complete(cmd, name, words)
}

// complete lets the shell complete the values of a flag.
func complete(cmd *cobra.Command, flag string, words []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist: a bug in this program
	}
}

// A textFlag is a flag value that reads and writes itself as text.
type textFlag struct {
	word
	kind string // shown as the value's type in the help text
}

func (f textFlag) Set(s string) error { return f.UnmarshalText([]byte(s)) }
func (f textFlag) Type() string       { return f.kind }

var _ pflag.Value = textFlag{}

// A choice is a flag value that must be one of a list of strings.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }

func (c *choice) UnmarshalText(text []byte) error {
	if !slices.Contains(c.of, string(text)) {
		return fmt.Errorf("must be one of %s", strings.Join(c.of, ", "))
	}
	c.value = string(text)
	return nil
}

// outputFlag adds -o with the given output formats; the first is the default.
func outputFlag(cmd *cobra.Command, forms ...string) *choice {
	c := &choice{forms[0], forms}
	wordFlag(cmd, c, forms, "output", "o", "output format")
	return c
}

// A milliFlag is an amount of CPU, written as Kubernetes writes it.
type milliFlag hybrid.Milli

func (m *milliFlag) String() string { return hybrid.Milli(*m).String() }
func (m *milliFlag) Type() string   { return "CPU" }

func (m *milliFlag) Set(s string) error {
	v, err := hybrid.ParseMilli(s)
	*m = milliFlag(v)
	return err
}

// An envFlag enables the environment variables with the CPU count and the memory. Its value can name variables that Candor sets
// only by name.
type envFlag struct {
	isSet bool
	named []string
}

func (e *envFlag) String() string {
	if len(e.named) > 0 {
		return strings.Join(e.named, ",")
	}
	return strconv.FormatBool(e.isSet)
}

func (e *envFlag) Type() string { return "bool" }

// Set reads true, false or the name of a variable, and overrides the value of an earlier flag.
func (e *envFlag) Set(text string) error {
	switch text {
	case "true", "false":
		*e = envFlag{isSet: text == "true"}
	case view.NodeOptions:
		*e = envFlag{true, []string{text}}
	default:
		return fmt.Errorf("must be true, false or %s", view.NodeOptions)
	}
	return nil
}

// A sizeFlag is an amount of memory in bytes, written as Docker writes it: a number with the unit b, k, m or g.
type sizeFlag struct {
	bytes     int64
	unlimited bool // -1 is accepted, and means no limit
}

func (s *sizeFlag) String() string {
	switch {
	case s.bytes == 0:
		return ""
	case s.bytes < 0:
		return "-1"
	}
	return sizeText(s.bytes)
}

func (s *sizeFlag) Type() string { return "size" }

// maxSize bounds a size: 4 EiB, less than the kernel's number for no limit.
const maxSize = 1 << 62

// Set reads a size. Units can have the endings b and ib, as in 512MiB.
func (s *sizeFlag) Set(text string) error {
	if s.unlimited && text == "-1" {
		s.bytes = -1
		return nil
	}
	lower := strings.ToLower(strings.TrimSpace(text))
	number := strings.TrimRight(lower, "abcdefghijklmnopqrstuvwxyz ")
	unit, _ := strings.CutSuffix(strings.TrimSpace(lower[len(number):]), "b")
	unit, isBinary := strings.CutSuffix(unit, "i")
	shift := slices.Index([]string{"", "k", "m", "g", "t"}, unit)
	if unit == "" && isBinary {
		shift = -1
	}
	n, err := strconv.ParseFloat(number, 64)
	isDecimal := strings.Trim(number, "0123456789.") == "" // no sign, exponent or name such as inf
	bytes := n * math.Pow(1024, float64(shift))
	if err != nil || !isDecimal || shift < 0 || bytes >= maxSize {
		more := ""
		if s.unlimited {
			more = ", or -1 for no limit"
		}
		return fmt.Errorf("must be a number with the unit b, k, m or g, such as 512m%s", more)
	}
	s.bytes = int64(bytes)
	return nil
}

// sizeText formats a number of bytes as sizeFlag reads it: 512m, 1536m, 2g.
func sizeText(bytes int64) string {
	switch {
	case bytes == cgroup.NoMemoryLimit:
		return "none"
	case bytes%(1<<30) == 0:
		return fmt.Sprintf("%dg", bytes>>30)
	case bytes%(1<<20) == 0:
		return fmt.Sprintf("%dm", bytes>>20)
	case bytes%(1<<10) == 0:
		return fmt.Sprintf("%dk", bytes>>10)
	default:
		return fmt.Sprintf("%db", bytes)
	}
}

// memoryFlags are the flags for the memory of a container.
type memoryFlags struct{ memory, memsw sizeFlag }

// addMemoryFlags adds the flags. usage describes --memory.
func addMemoryFlags(cmd *cobra.Command, usage string) *memoryFlags {
	f := &memoryFlags{memsw: sizeFlag{unlimited: true}}
	cmd.Flags().Var(&f.memory, "memory", usage)
	cmd.Flags().Var(&f.memsw, "memory-swap", "limit of memory and swap together; -1: none for swap (default: twice --memory)")
	return f
}

// request returns the limits that the flags request, or nil without --memory. As with Docker, the container can use as much swap
// as memory without --memory-swap.
func (f *memoryFlags) request(cmd *pflag.FlagSet) (*host.MemoryRequest, error) {
	if !cmd.Changed("memory") {
		if cmd.Changed("memory-swap") {
			return nil, missing("--memory", "the limit of the memory, such as 512m; --memory-swap is the limit of memory and swap together")
		}
		return nil, nil
	}
	r := &host.MemoryRequest{MemoryLimits: cgroup.MemoryLimits{Memory: f.memory.bytes, Swap: f.memory.bytes}}
	switch memsw := f.memsw.bytes; {
	case memsw == 0:
		r.IsSwapOptional = true
	case memsw < 0:
		r.Swap = cgroup.NoMemoryLimit
	case memsw < f.memory.bytes:
		return nil, badInput("--memory-swap %v: must be --memory (%v) or more, because it is the limit of memory and swap together; or -1 for no limit", &f.memsw, &f.memory)
	default:
		r.Swap = memsw - f.memory.bytes
	}
	return r, host.CheckMemory(r)
}

// words is a flag value with one or more words, separated by commas. The field words.of lists the accepted words.
type words struct {
	values, of []string
}

// wordsFlag adds a flag that takes a list of words.
func wordsFlag(cmd *cobra.Command, w *words, of, values []string, name, usage string) {
	*w = words{values, of}
	cmd.Flags().Var(w, name, usage+" ["+strings.Join(of, "|")+"; several: separated by commas]")
	complete(cmd, name, of)
}

func (w *words) String() string { return strings.Join(w.values, ",") }
func (w *words) Type() string   { return "words" }

// Set reads a list.
func (w *words) Set(text string) error {
	values := strings.Split(text, ",")
	for _, v := range values {
		if !slices.Contains(w.of, v) {
			return fmt.Errorf("%q: must be one of %s, or several separated by commas", v, strings.Join(w.of, ", "))
		}
	}
	w.values = values
	return nil
}

// A sensitiveFlag selects the sensitive containers of a simulation. candor simulate replays the trace
// for each selection.
type sensitiveFlag struct {
	text       string
	selections []simulate.Selection
}

func (s *sensitiveFlag) String() string { return s.text }
func (s *sensitiveFlag) Type() string   { return "shares" }

const sensitiveForms = "must be shares from 0 to 1 such as 0.5 or 0.1,0.5, a range from:to:step, by-class, or by=FILE"

// maxShares bounds the number of shares in a range.
const maxShares = 1001

// Set reads a list, separated by commas.
func (s *sensitiveFlag) Set(text string) error {
	s.text, s.selections = text, nil
	for part := range strings.SplitSeq(text, ",") {
		if err := s.part(part); err != nil {
			return err
		}
	}
	return nil
}

func (s *sensitiveFlag) part(part string) error {
	if part == "by-class" {
		s.selections = append(s.selections, simulate.Selection{ByClass: true})
		return nil
	}
	if path, isFile := strings.CutPrefix(part, "by="); isFile {
		list, err := readWith(path, simulate.ReadList)
		if err != nil {
			return err
		}
		s.selections = append(s.selections, simulate.Selection{Listed: list})
		return nil
	}
	shares, err := parseShares(part)
	for _, v := range shares {
		s.selections = append(s.selections, simulate.Selection{Share: v})
	}
	return err
}

// parseShares parses a number, or a range from:to:step including both ends.
func parseShares(part string) ([]float64, error) {
	var v []float64
	for word := range strings.SplitSeq(part, ":") {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil || !(n >= 0 && n <= 1) {
			return nil, fmt.Errorf("%q: %s", part, sensitiveForms)
		}
		v = append(v, n)
	}
	if len(v) == 1 {
		return v, nil
	}
	if len(v) != 3 || v[2] == 0 || v[1] < v[0] || (v[1]-v[0])/v[2] > maxShares {
		return nil, fmt.Errorf("%q: %s; a step above 0, %d shares at most", part, sensitiveForms, maxShares)
	}
	var shares []float64
	const slack = 1e-9 // for the rounding errors of the sum
	for i := 0; ; i++ {
		share := v[0] + float64(i)*v[2]
		if share > v[1]+slack {
			return shares, nil
		}
		shares = append(shares, math.Round(share*1e9)/1e9)
	}
}

// count formats a number with its unit: "1 process", "2 processes".
func count[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// amount formats an amount of CPU: "1 CPU", "2 CPUs", "1500m".
func amount(m hybrid.Milli) string {
	if m%1000 == 0 {
		return count(int(m/1000), "CPU", "CPUs")
	}
	return m.String()
}

// limitCell formats a limit for a table; 0 means none.
func limitCell(m hybrid.Milli) string {
	if m == 0 {
		return "-"
	}
	return m.String()
}

// limit formats a limit; 0 means none.
func limit(m hybrid.Milli) string {
	if m == 0 {
		return "none"
	}
	return amount(m)
}
