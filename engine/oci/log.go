package oci

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

// openLog opens the file in which the engine looks for what went wrong; without one,
// and where it cannot be written, there is nobody to tell. A pipe that nobody reads does not hold us.
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

// logger writes to the engine's file in its form. The file stays open: a runtime does not
// live long.
func (c *Call) logger() *slog.Logger { return newLogger(c.openLog(), c.JSON) }

// newLogger writes records as runc does: level, msg and time.
func newLogger(to io.Writer, asJSON bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: asRunc}
	if asJSON {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// asRunc writes levels in small letters: engines look for "error".
func asRunc(groups []string, a slog.Attr) slog.Attr {
	if level, is := a.Value.Any().(slog.Level); is && len(groups) == 0 && a.Key == slog.LevelKey {
		a.Value = slog.StringValue(strings.ToLower(level.String()))
	}
	return a
}

// refuse says why the real runtime was not called: to people on standard error, to the
// engine in its file.
func (c *Call) refuse(err error) {
	line := lineOf(err)
	fmt.Fprintln(os.Stderr, line)
	file := c.openLog()
	defer file.Close()
	newLogger(file, c.JSON).Error(line)
}

// warn notes what failed after the real runtime's work was done. That a grant is no
// more, or that processes keep it, is none of the engine's business.
func (c *Call) warn(err error) {
	var refusal *hybrid.Refusal
	if err != nil && !errors.As(err, &refusal) && !errors.Is(err, host.ErrPopulated) {
		c.logger().Warn(lineOf(err))
	}
}

// warnWeight says that a container's weight is not what its user has asked for: beside a fraction of
// a CPU it would be what decides.
func (c *Call) warnWeight(name, asked string) {
	if asked != "" {
		c.logger().Warn("candor: " + name + ": " + asked + ": not followed: weights are Candor's, by limit and guarantee")
	}
}

// lineOf is an error as one printable line.
func lineOf(err error) string {
	return "candor: " + strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, err.Error())
}
