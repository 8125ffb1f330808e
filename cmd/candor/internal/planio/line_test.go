package planio

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestBadLines(t *testing.T) {
	for line, want := range map[string]string{
		`nonsense`:                                     "must be a JSON object, got nonsense",
		`["op"]`:                                       `must be a JSON object, got ["op"]`,
		`null`:                                         "must be a JSON object, got null",
		`{"op":"release","id":"a"`:                     "not a JSON object: unexpected end of JSON input",
		`{"op":"release","id":"a"}}`:                   "not a JSON object: invalid character '}' after top-level value",
		`{"op":"release","id":"a"} {}`:                 "not a JSON object: invalid character '{' after top-level value",
		`{op:"release"}`:                               "not a JSON object: invalid character 'o' looking for beginning of object key string",
		`{}`:                                           `no "op": must be "allocate", "release" or "resize"`,
		`{"op":"move","id":"a"}`:                       `unknown op "move": must be "allocate", "release" or "resize"`,
		`{"op":1,"id":"a"}`:                            `unknown op 1: must be "allocate", "release" or "resize"`,
		`{"op":"","id":"a"}`:                           `unknown op "": must be "allocate", "release" or "resize"`,
		`{"Op":"release","id":"a"}`:                    `no "op": must be "allocate", "release" or "resize"`,
		`{"op":"release","ID":"a"}`:                    `unknown field "ID": release has op, id`,
		`{"op":"release","id":"a","id":1}`:             `duplicate field "id"`,
		`{"op":"release","op":"release"}`:              `duplicate field "op"`,
		`{"op":"release","id":"a","cpu":"1"}`:          `unknown field "cpu": release has op, id`,
		`{"op":"allocate","id":"a","cpus":"1"}`:        `unknown field "cpus": allocate has op, id, cpu, class, request, topology, policy`,
		`{"op":"resize","id":"a","class":"sensitive"}`: `unknown field "class": resize has op, id, cpu, request`,
		`{"op":"release","` + strings.Repeat("x", 99) + `":1}`: `unknown field "` + strings.Repeat("x", 60) + `…": release has op, id`,
		"{\"op\":\"release\",\"id\":\"\xff\"}":                 "not valid UTF-8",
	} {
		r := NewReader(strings.NewReader("\n  \r\n" + line + "\n"))
		op, err := r.Next()
		var lineErr *LineError
		if !errors.As(err, &lineErr) || lineErr.Line != 3 || lineErr.Reason != want {
			t.Errorf("%s: %v, %v\nwant line 3: %s", line, op, err, want)
		}
	}
}

func TestOperations(t *testing.T) {
	r := NewReader(strings.NewReader(`{"op":"allocate","id":"web","cpu":"3500m","class":"sensitive"}` + "\n\n" +
		" {\"id\" : \"w\\u0065b\", \"o\\u0070\":\"resize\",\"cpu\":2} \r\n" + `{"op":"release"}`))
	for i, want := range []string{
		"allocate web map[class:sensitive cpu:3500m] <nil>",
		"resize web map[] cpu wants a string, got 2",
		"release  map[] <nil>",
	} {
		op, err := r.Next()
		if got := fmt.Sprint(op.Name, " ", op.ID, " ", op.values, " ", op.bad); err != nil || got != want {
			t.Errorf("operation %d: %s, %v; want %s", i+1, got, err, want)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the last operation: %v, want io.EOF", err)
	}
}

// TestLongLine: a line of MaxLine bytes is accepted, and a longer line is an error.
func TestLongLine(t *testing.T) {
	line := func(n int) io.Reader {
		head := `{"op":"release","id":"`
		return strings.NewReader(head + strings.Repeat("x", n-len(head)-2) + "\"}\n")
	}
	if op, err := NewReader(line(MaxLine)).Next(); err != nil || op.Name != "release" {
		t.Errorf("a line of %d bytes: %v", MaxLine, err)
	}
	_, err := NewReader(line(MaxLine + 1)).Next()
	if want := "line 1: longer than 1048576 bytes"; err == nil || err.Error() != want {
		t.Errorf("a longer line: %v, want %s", err, want)
	}
}

// TestReadError: an error of the input stream is returned unchanged, not as an error of a line.
func TestReadError(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("{\"op\":\"release\"}\n{"), &failing{broken}))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != broken {
		t.Errorf("got %v, want the error of the stream", err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func FuzzParseLine(f *testing.F) {
	for _, seed := range []string{
		`{"op":"allocate","id":"web","cpu":"3500m","class":"sensitive"}`,
		`{"op":"allocate","id":"log","cpu":"0","class":"flexible","request":"250m","topology":"single-numa"}`,
		`{"op":"release","id":"web"}`, `{"op":"resize","id":"web","cpu":"2"}`,
		`{"op":"resize","id":"web","id":"2"}`, `{"op":"x"}`, `[]`, `{"op":"release"}}`, `{"\ud800":1}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := NewReader(strings.NewReader(text))
		for {
			op, err := r.Next()
			var lineErr *LineError
			switch {
			case err == io.EOF:
				return
			case errors.As(err, &lineErr):
				if len(lineErr.Reason) > 400 {
					t.Fatalf("an error of %d bytes", len(lineErr.Reason))
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			if _, known := fieldsOf[op.Name]; !known {
				t.Fatalf("op %q", op.Name)
			}
		}
	})
}
