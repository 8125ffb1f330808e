package state

import (
	"fmt"
	"time"
)

// Between operations, a process may give containers more than the quota that they are granted, for a short time: the
// loop of package burst, in candor run and candor nri. Their grants carry a loan then: an operation
// leaves a quota alone that is within it. Where the process has died, or not asked again in time, the next
// operation sets the quota back as it does with a stranger's write.

// A Loan allows a process to give a container more than its quota.
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

// IsHeld reports whether a loan allows anything.
func (l Loan) IsHeld() bool { return l.Until > SinceBoot() && l.To.Alive() }
