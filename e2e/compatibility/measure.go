package compatibility

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/candor-project/candor/e2e/celllog"
)

// A Measurement measures cells one after the other.
type Measurement struct {
	Source  string    // directory of the module github.com/candor-project/candor
	Results string    // file of the results
	Page    string    // file of the page
	Engines string    // cache of scripts/engines.sh
	Output  io.Writer // progress

	work     string // directory with the test binaries
	log      *celllog.Log
	measured map[string]Result
}

// cellLimit bounds the time of a cell, including the boot of a guest.
const cellLimit = 8 * time.Minute

// Open reads the results of earlier measurements: the results on the page, and the newer results in the file. Close ends the measurement.
func (m *Measurement) Open() error {
	page, err := os.ReadFile(m.Page)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	m.measured = ReadPage(string(page))
	if m.log, err = celllog.Open(m.Results, m.read); err != nil {
		return err
	}
	m.work, err = os.MkdirTemp("", "candor-compatibility-")
	return err
}

// read reads the lines of the file with the results.
func (m *Measurement) read(lines []byte) error {
	number := 0
	for line := range bytes.Lines(lines) {
		number++
		var r Result
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		m.measured[r.Cell] = r
	}
	return nil
}

// Close removes the test binaries and closes the file.
func (m *Measurement) Close() error { return errors.Join(os.RemoveAll(m.work), m.log.Close()) }

// Missing returns the cells that have no result.
func (m *Measurement) Missing() (cells []Cell) {
	for _, c := range Cells() {
		if _, ok := m.measured[c.String()]; !ok {
			cells = append(cells, c)
		}
	}
	return cells
}

// Run measures cells, and writes the page after each of them. A missing engine is no error: the cell gets no result.
func (m *Measurement) Run(ctx context.Context, cells []Cell) error {
	for i, c := range cells {
		start := time.Now()
		r, err := m.measure(ctx, c)
		text := r.Answer
		if err != nil {
			if text = err.Error(); !errors.As(err, new(*NotMeasuredError)) {
				return fmt.Errorf("%s: %w", c, err)
			}
		} else if err := m.add(r); err != nil {
			return err
		}
		fmt.Fprintf(m.Output, "%d of %d: %s (%.0f s): %s\n", i+1, len(cells), c, time.Since(start).Seconds(), text)
	}
	return m.WritePage()
}

// add stores a result.
func (m *Measurement) add(r Result) error {
	if err := m.log.Add(r); err != nil {
		return err
	}
	m.measured[r.Cell] = r
	return m.WritePage()
}

// WritePage writes the page with all results.
func (m *Measurement) WritePage() error {
	return os.WriteFile(m.Page, []byte(Page(m.measured)), 0o644)
}

// measure measures a cell. If the cell fails, measure repeats the test and returns the second result.
func (m *Measurement) measure(ctx context.Context, c Cell) (r Result, err error) {
	for range 2 {
		output, err := m.test(ctx, c)
		if err != nil {
			return r, err
		}
		r = Result{Cell: c.String(), Date: time.Now().UTC().Format(time.DateOnly)}
		if r.Answer, r.Versions, err = Parse(output); err != nil {
			return r, err
		}
		if r.Answer == Yes {
			break
		}
		fmt.Fprintf(m.Output, "%s: %s\n", c, r.Answer)
		if err := os.WriteFile(m.logOf(c), []byte(output), 0o644); err != nil {
			return r, err
		}
	}
	return r, nil
}

// logOf returns the file with the output of the last failed test of a cell.
func (m *Measurement) logOf(c Cell) string {
	return filepath.Join(filepath.Dir(m.Results), strings.ReplaceAll(c.String(), "/", "-")+".log")
}

// test runs the test of a cell and returns its output. The exit code of the test is no error.
func (m *Measurement) test(ctx context.Context, c Cell) (output string, err error) {
	binary, err := m.build(ctx, c.Package())
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, cellLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run=^TestCompatibility$", "-test.v", "-test.timeout="+(cellLimit-time.Minute).String())
	cmd.Dir = filepath.Join(m.Source, c.Package())
	cmd.Env = append(os.Environ(), Variable+"="+c.String(), "CANDOR_GUEST=1", "CANDOR_BIN="+filepath.Join(m.work, "candor"))
	if dir := m.engineDir(c.Engine); c.Machine.Name == Host && dir != "" {
		cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"), "DOCKER_CONFIG="+filepath.Join(dir, "config"), "CANDOR_CONTAINERD_1_7="+dir)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// The test and its daemons end together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && ctx.Err() == nil {
		err = nil
	}
	return out.String(), err
}

// engineDir returns the directory of an engine that is not in the PATH, or "".
func (m *Measurement) engineDir(e Engine) string {
	if e.Dir == "-" {
		return ""
	}
	return filepath.Join(m.Engines, e.Dir)
}

// build builds candor and the tests of a package, once.
func (m *Measurement) build(ctx context.Context, dir string) (binary string, err error) {
	binary = filepath.Join(m.work, filepath.Base(dir)+".test")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	for _, args := range [][]string{
		{"-C", m.Source, "build", "-o", filepath.Join(m.work, "candor"), "./cmd/candor"},
		{"-C", filepath.Join(m.Source, dir), "test", "-c", "-vet=off", "-o", binary, "."},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return binary, nil
}
