package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/candor-project/candor/trace"
)

// A List is a set of containers, named by job, or by job and task.
type List struct {
	jobs  map[uint64]bool
	tasks map[taskKey]bool
}

type taskKey struct {
	job  uint64
	task uint32
}

func (l *List) contains(job uint64, task uint32) bool {
	return l.jobs[job] || l.tasks[taskKey{job, task}]
}

// ReadList reads a CSV file: a header line "job" or "job,task", and a line for each job or task. The job is the number or the name that the
// trace contains. A line without a task, or with an empty task, selects all tasks of the job. The name of the file is for error messages.
func ReadList(r io.Reader, name string) (*List, error) {
	c := csv.NewReader(r)
	c.TrimLeadingSpace = true
	header, err := c.Read()
	if err == io.EOF {
		return nil, fmt.Errorf("%s: empty: the first line must be job or job,task", name)
	}
	if err != nil {
		return nil, csvError(name, err)
	}
	if header[0] != "job" || len(header) > 2 || len(header) == 2 && header[1] != "task" {
		return nil, fmt.Errorf("%s:1: columns %s: must be job or job,task", name, strings.Join(header, ", "))
	}
	l := &List{jobs: map[uint64]bool{}, tasks: map[taskKey]bool{}}
	for {
		fields, err := c.Read()
		if err == io.EOF {
			return l, nil
		}
		if err != nil {
			return nil, csvError(name, err)
		}
		if err := l.add(fields); err != nil {
			line, _ := c.FieldPos(0)
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
}

// add adds the containers of a line.
func (l *List) add(fields []string) error {
	if fields[0] == "" {
		return errors.New("no job: must be a number or a name")
	}
	job := trace.JobNumber([]byte(fields[0]))
	if len(fields) == 1 || fields[1] == "" {
		l.jobs[job] = true
		return nil
	}
	task, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil {
		return fmt.Errorf("task %q: must be a number from 0 to 4294967295, or empty for all tasks of the job", fields[1])
	}
	l.tasks[taskKey{job, uint32(task)}] = true
	return nil
}

// csvError returns an error of the CSV reader with the name of the file and, if known, the line.
func csvError(name string, err error) error {
	if parse := (*csv.ParseError)(nil); errors.As(err, &parse) {
		return fmt.Errorf("%s:%d: %w", name, parse.Line, parse.Err)
	}
	return fmt.Errorf("%s: %w", name, err)
}
