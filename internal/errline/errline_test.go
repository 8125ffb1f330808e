package errline

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"
)

func TestJoin(t *testing.T) {
	for _, c := range []struct {
		errs []error
		want string
	}{
		{[]error{io.EOF}, "EOF"},
		{[]error{nil, io.EOF, nil}, "EOF"},
		{[]error{io.EOF, nil, fs.ErrExist, io.EOF}, "EOF; file already exists; EOF"},
	} {
		got := Join(c.errs...)
		if got == nil || got.Error() != c.want {
			t.Errorf("%v: %v", c.errs, got)
		}
		for _, err := range c.errs {
			if err != nil && !errors.Is(got, err) {
				t.Errorf("%v is not %v", got, err)
			}
		}
	}
	if err := Join(nil, nil); err != nil {
		t.Error(err)
	}
	if got := With(", then ", io.EOF, fs.ErrExist).Error(); got != "EOF, then file already exists" {
		t.Error(got)
	}
}

func TestNamed(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{io.EOF, "web: EOF"},
		{fmt.Errorf("web: %w", io.EOF), "web: EOF"},
		{fmt.Errorf("web2: %w", io.EOF), "web: web2: EOF"},
	} {
		if got := Named("web", c.err); got.Error() != c.want || !errors.Is(got, io.EOF) {
			t.Errorf("%v: got %v, want %s", c.err, got, c.want)
		}
	}
	if err := Named("web", nil); err != nil {
		t.Errorf("nil: got %v", err)
	}
}
