package errline

import (
	"errors"
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
