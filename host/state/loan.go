package state

import (
	"fmt"
	"time"
)

// Between operations, the loop of package burst in candor run and candor nri can raise the quota of a container for a
// short time. The grant carries a loan then, and an operation does not reset a quota within the loan. If the process
// has died or has not renewed the loan in time, the next operation resets the quota as it resets a foreign write.

// A Loan allows a process to raise the quota of a container. The zero value allows nothing.
type Loan struct {
	To    Process
	Until time.Duration // time since boot
}

// fileLoan is a Loan in the state file.
type fileLoan struct {
	To    Process `json:"to"`
	Until int64   `json:"untilMs"`
}

func newFileLoan(l Loan) *fileLoan {
	if l == (Loan{}) {
		return nil
	}
	return &fileLoan{l.To, l.Until.Milliseconds()}
}

func (f *fileLoan) loan() (Loan, error) {
	if f == nil {
		return Loan{}, nil
	}
	if f.Until < 0 || f.Until > maxUptime {
		return Loan{}, fmt.Errorf("loan until %d ms: want the time since boot", f.Until)
	}
	return Loan{f.To, time.Duration(f.Until) * time.Millisecond}, nil
}

// IsHeld reports whether the loan is valid: it has not expired, and its process lives.
func (l Loan) IsHeld() bool { return l.Until > SinceBoot() && l.To.Alive() }
