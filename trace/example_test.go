package trace_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/candor-project/candor/trace"
)

// A Reader returns the events of a trace in the order of time.
func Example() {
	r, err := trace.Open("csv:testdata/plain/trace.csv", trace.Options{})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	unit := r.Header().Unit
	var e trace.Event
	for range 3 {
		if err := r.Next(&e); err != nil {
			panic(err)
		}
		fmt.Printf("%v s: %v, %d milli-CPU\n", e.Time.Seconds(), e.Kind, unit.Milli(e.CPU, 16))
	}
	// Output:
	// 0 s: machine-add, 16000 milli-CPU
	// 0 s: machine-add, 8000 milli-CPU
	// 0 s: submit, 1500 milli-CPU
}

// Summarize reads a trace to its end.
func ExampleSummarize() {
	r, err := trace.Open("synthetic:machines=5,days=0.02,seed=1", trace.Options{})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	s, err := trace.Summarize(r, 16) // the largest machine has 16 cores
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Machines.Start, "machines with", s.Machines.Cores, "cores")
	fmt.Println(s.Containers.Start, "containers at the start,", s.Containers.New, "later")
	// Output:
	// 5 machines with 40 cores
	// 55 containers at the start, 34 later
}

// Import writes a compact file, which opens like any other trace.
func ExampleImport() {
	dir, err := os.MkdirTemp("", "trace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	r, err := trace.Open("csv:testdata/plain/trace.csv", trace.Options{})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	file := filepath.Join(dir, "plain.ctrace")
	header, err := trace.Import(context.Background(), file, r)
	if err != nil {
		panic(err)
	}

	compact, err := trace.Open(file, trace.Options{})
	if err != nil {
		panic(err)
	}
	defer compact.Close()
	var e trace.Event
	events := int64(0)
	for err = compact.Next(&e); err == nil; err = compact.Next(&e) {
		events++
	}
	fmt.Println(events == header.Events, errors.Is(err, io.EOF))
	// Output: true true
}

// NewMemory replays events that the program itself has created.
func ExampleNewMemory() {
	r := trace.NewMemory(trace.Header{Name: "two", Unit: trace.Milli}, []trace.Event{
		{Kind: trace.MachineAdd, CPU: 4000, Memory: 8192},
		{Time: 2 * trace.Second, Kind: trace.Submit, Job: 1, CPU: 1500},
	})
	var e trace.Event
	for r.Next(&e) == nil {
		fmt.Println(e.Time.Seconds(), e.Kind)
	}
	// Output:
	// 0 machine-add
	// 2 submit
}
