package main

import (
	"encoding"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/candor-project/candor/hybrid"
)

// A word is a flag value with a fixed list of words.
type word interface {
	encoding.TextUnmarshaler
	fmt.Stringer
}

// The words that each kind of value knows, for help and completion.
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
		panic(err) // the flag does not exist: a slip in this program
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

// A choice is a plain string out of a few.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }

func (c *choice) UnmarshalText(text []byte) error {
	if !slices.Contains(c.of, string(text)) {
		return fmt.Errorf("want one of %s", strings.Join(c.of, ", "))
	}
	c.value = string(text)
	return nil
}

// outputFlag adds -o with the given forms; the first is the default.
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
