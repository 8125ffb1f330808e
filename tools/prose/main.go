// Command prose measures the language of the comments of non-test Go files and of Markdown outside code and tables:
//
//	prose [-list] DIR
//
// It prints the rate of each word with a limit per 1,000 words, and the length of the sentences. Over a limit it prints
// where the words or sentences are, and exits with code 1.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A limit is the highest rate of a group of words.
type limit struct {
	name    string
	words   *regexp.Regexp
	perMill float64 // per 1,000 words
}

func words(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(` + pattern + `)\b`) }

// The limits are slightly above the rates of well-written code of this field. The last pattern finds phrases that often replace
// the first word.
var limits = []limit{
	{"what", words(`what`), 1},
	{"who, somebody, nobody", words(`who|somebody|nobody|whoever`), 0.4},
	{"said, says", words(`said|says`), 0.2},
	{"one, ones", words(`ones?`), 3},
	{"is told", words(`(is|are|be|was|were) told`), 0.02},
	{"that which, whatever", words(`that which|those which|whatever|the things? (that|which)`), 0.5},
}

const (
	maxUsual    = 30 // words in 95 % of the sentences
	maxSentence = 45 // words in any sentence
)

// A paragraph is a piece of running text.
type paragraph struct {
	file string
	line int // of its first line
	text string
}

// A finding is a place in a text that counts against a limit.
type finding struct {
	file string
	line int
	text string
}

func main() {
	list := flag.Bool("list", false, "list each word and long sentence, also below the limits")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: prose [-list] DIR")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	comments, docs, err := read(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
	good := measure(os.Stdout, "comments", comments, *list)
	good = measure(os.Stdout, "docs", docs, *list) && good
	if !good {
		os.Exit(1)
	}
}

// measure prints the figures of a text and reports whether all of them are within the limits.
func measure(w io.Writer, name string, text []paragraph, list bool) bool {
	total := 0
	for _, p := range text {
		total += len(strings.Fields(p.text))
	}
	good := true
	for _, l := range limits {
		found := l.find(text)
		rate := 1000 * float64(len(found)) / float64(max(total, 1))
		mark := ""
		if rate > l.perMill {
			good, mark = false, "  too many"
		}
		fmt.Fprintf(w, "%-8s  %-22s %6.2f per 1,000 words, limit %g%s\n", name, l.name, rate, l.perMill, mark)
		if list || mark != "" {
			printAll(w, found)
		}
	}
	return sentences(w, name, text, total, list) && good
}

func (l *limit) find(text []paragraph) (found []finding) {
	for _, p := range text {
		for i, line := range strings.Split(p.text, "\n") {
			for range l.words.FindAllString(line, -1) {
				found = append(found, finding{p.file, p.line + i, strings.TrimSpace(line)})
			}
		}
	}
	return found
}

// sentences prints the lengths of the sentences and reports whether they are within the limits.
func sentences(w io.Writer, name string, text []paragraph, total int, list bool) bool {
	var lengths []int
	var usual, long []finding
	for _, p := range text {
		for _, s := range split(p) {
			n := len(strings.Fields(s.text))
			if n <= 2 {
				continue // a heading, a label
			}
			lengths = append(lengths, n)
			switch f := (finding{s.file, s.line, fmt.Sprintf("%d words: %s", n, strings.Join(strings.Fields(s.text), " "))}); {
			case n > maxSentence:
				long = append(long, f)
			case n > maxUsual:
				usual = append(usual, f)
			}
		}
	}
	if len(lengths) == 0 {
		return true
	}
	slices.Sort(lengths)
	percentile := lengths[(len(lengths)*95-1)/100]
	good := percentile <= maxUsual && len(long) == 0
	fmt.Fprintf(w, "%-8s  %d words in %d sentences: median %d, 95 %% up to %d (limit %d), %d over %d words\n",
		name, total, len(lengths), lengths[len(lengths)/2], percentile, maxUsual, len(long), maxSentence)
	printAll(w, long)
	if list || percentile > maxUsual {
		printAll(w, usual)
	}
	return good
}

var sentenceEnd = regexp.MustCompile(`[.!?:]["')*]*\s+`)

// split divides a paragraph into its sentences.
func split(p paragraph) (all []paragraph) {
	start := 0
	add := func(end int) {
		all = append(all, paragraph{p.file, p.line + strings.Count(p.text[:start], "\n"), p.text[start:end]})
	}
	for _, at := range sentenceEnd.FindAllStringIndex(p.text, -1) {
		add(at[1])
		start = at[1]
	}
	add(len(p.text))
	return all
}

func printAll(w io.Writer, all []finding) {
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Or(cmp.Compare(a.file, b.file), a.line-b.line) })
	for _, f := range all {
		fmt.Fprintf(w, "  %s:%d: %s\n", f.file, f.line, f.text)
	}
}
