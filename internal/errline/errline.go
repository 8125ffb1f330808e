// Package errline joins errors into a single line, the form in which candor prints them.
package errline

import (
	"errors"
	"fmt"
	"syscall"
)

// Join is errors.Join with "; " between the errors. It omits nil errors.
func Join(errs ...error) error { return With("; ", errs...) }

// With is Join with other words between the errors.
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

// Cause returns the system's error number without the operation and the file, if err has an error number.
func Cause(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}
