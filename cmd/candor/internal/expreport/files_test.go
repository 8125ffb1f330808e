package expreport

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/fileio"
)

// TestFiles: each image file can be decoded, also for setups and applications without runs.
func TestFiles(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []fileio.File
		want  string
	}{
		{"report", sample().Files(), "report.json report.md report.html figure-time.svg figure-time.png figure-1-rate----d.svg figure-1-rate----d.png"},
		{"isolation", isolation().Files(), "report.json report.md report.html figure-1-route--b.svg figure-1-route--b.png figure-2-none.svg figure-2-none.png"},
		{"programs", together(t).Files(), "programs.json programs.md programs.svg programs.png"},
	} {
		var names []string
		for _, file := range c.files {
			names = append(names, file.Name)
			var out bytes.Buffer
			if err := file.Write(&out); err != nil || out.Len() == 0 {
				t.Errorf("%s: %s: %d bytes, %v", c.name, file.Name, out.Len(), err)
			}
			if err := checkPicture(file.Name, &out); err != nil {
				t.Errorf("%s: %s: %v", c.name, file.Name, err)
			}
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// checkPicture decodes an SVG or PNG file. It accepts other files.
func checkPicture(name string, file io.Reader) error {
	switch {
	case strings.HasSuffix(name, ".svg"):
		for decoder := xml.NewDecoder(file); ; {
			if _, err := decoder.Token(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	case strings.HasSuffix(name, ".png"):
		_, err := png.Decode(file)
		return err
	}
	return nil
}
