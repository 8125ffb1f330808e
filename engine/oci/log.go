package oci

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/view"
)

// openLog opens the log file of the engine. Without a file, or if it is not writable, messages are discarded. If the file is a
// pipe without a reader, openLog does not block.
func (c *Call) openLog() io.WriteCloser {
	if c.Log != "" {
		f, err := os.OpenFile(c.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK, 0o644)
		if err == nil {
			return f
		}
	}
	return nopCloser{io.Discard}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// logger returns a logger that writes to the engine's log file in the format of that file. The file stays open, because this
// process ends soon.
func (c *Call) logger() *slog.Logger { return newLogger(c.openLog(), c.JSON) }

// newLogger returns a logger that writes records as runc does: level, msg and time.
func newLogger(to io.Writer, asJSON bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: runcAttr}
	if asJSON {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// runcAttr writes levels in lower case, because engines search for "error".
func runcAttr(groups []string, a slog.Attr) slog.Attr {
	if level, is := a.Value.Any().(slog.Level); is && len(groups) == 0 && a.Key == slog.LevelKey {
		a.Value = slog.StringValue(strings.ToLower(level.String()))
	}
	return a
}

// refuse reports why the real runtime was not called: on standard error for the user, and in the log file for the engine.
func (c *Call) refuse(err error) {
	line := lineOf(err)
	fmt.Fprintln(os.Stderr, line)
	file := c.openLog()
	defer file.Close()
	newLogger(file, c.JSON).Error(line)
}

// warn logs a failure of Candor's own work, which must not fail the command. It ignores a hybrid.Refusal, for example of a
// container without a grant, and host.ErrPopulated: neither of them concerns the engine.
func (c *Call) warn(err error) {
	var refusal *hybrid.Refusal
	if err != nil && !errors.As(err, &refusal) && !errors.Is(err, host.ErrPopulated) {
		c.logger().Warn(lineOf(err))
	}
}

// logSize returns the present size of the log file of the engine in bytes, or 0 without a file.
func (c *Call) logSize() int64 {
	info, err := os.Stat(c.Log)
	if err != nil {
		return 0
	}
	return info.Size()
}

// blamesLiveView reports whether the real runtime has written an error about the mount of a live file of a container's view to the log
// file of the engine, after the first from bytes. A runtime can forbid mounts over files in /proc: runc and crun permit those of a view.
func (c *Call) blamesLiveView(g *host.Grant, from int64) bool {
	binds := view.LiveBinds("", host.LiveParts(g))
	if c.Log == "" || len(binds) == 0 {
		return false
	}
	f, err := os.OpenFile(c.Log, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	const maxRead = 64 << 10 // the error of a runtime is at the end of its log
	from = max(from, info.Size()-maxRead)
	text, err := io.ReadAll(io.NewSectionReader(f, from, maxRead))
	if err != nil {
		return false
	}
	for line := range bytes.Lines(text) {
		names := func(b view.Bind) bool { return bytes.Contains(line, []byte(strings.TrimPrefix(b.Target, "/"))) } // crun has no slash
		if bytes.Contains(line, []byte("mount")) && slices.ContainsFunc(binds, names) {
			return true
		}
	}
	return false
}

// warnWeight reports that a container does not get its requested weight: on a fractional CPU, that weight would change the CPU
// time of the fractions.
func (c *Call) warnWeight(name, asked string) {
	if asked != "" {
		c.logger().Warn("candor: " + name + ": " + asked + ": ignored: Candor sets the weight from limit and guarantee")
	}
}

// lineOf returns an error as a printable line.
func lineOf(err error) string {
	return "candor: " + strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, err.Error())
}
