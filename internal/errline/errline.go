// Package errline writes errors on a single line, the form in which candor prints them.
package errline

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Join joins errors as errors.Join does, but with "; " between them. It omits nil errors.
func Join(errs ...error) error { return With("; ", errs...) }

// With joins errors as Join does, with another separator.
func With(separator string, errs ...error) error {
	var all error
	for _, err := range errs {
		switch {
		case all == nil:
			all = err
		case err != nil:
			all = fmt.Errorf("%w%s%w", all, separator, err)
		}
	}
	return all
}

// Named names an object in an error whose text does not begin with the name. It returns nil if err is nil.
func Named(name string, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), name+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Cause returns the errno in err, without the operation and the file. If err has no errno, Cause returns err.
func Cause(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}
