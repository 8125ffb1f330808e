package support

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/candor-project/candor/internal/fileio"
)

// Bounds of the log in an archive.
const (
	logLines = "2000"
	maxLog   = 4 << 20 // bytes
	logLimit = 10 * time.Second
)

// ReadLog returns the end of a file with the log of candor nri. Without a file, it returns the end of the unit's log in the journal of
// systemd. The error is a single line.
func ReadLog(ctx context.Context, file string) ([]byte, error) {
	if file != "" {
		return fileio.Read(file, maxLog)
	}
	path, err := exec.LookPath("journalctl")
	if err != nil {
		return nil, errors.New("no journalctl: pass the log of candor nri with --log FILE")
	}
	ctx, cancel := context.WithTimeout(ctx, logLimit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, "--unit=candor-nri", "--lines="+logLines, "--output=cat", "--no-pager", "--quiet")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("journalctl: %w", err)
	}
	if out.Len() == 0 {
		return nil, errors.New("the journal has no lines of the unit candor-nri")
	}
	text := out.Bytes()
	if cut := len(text) - maxLog; cut > 0 {
		text = text[cut:]
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	return text, nil
}
