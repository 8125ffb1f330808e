package hybrid

import (
	"fmt"
	"strconv"
	"strings"
)

// Milli is an amount of CPU time per time, in thousandths of a CPU:
// 1500 is one and a half CPUs.
type Milli int64

// MinLimit is the smallest limit: 1 ms in a period of 100 ms, the least quota
// that the kernel accepts.
const MinLimit Milli = 10

// MaxLimit is the largest limit: every CPU that a cpuset can hold.
const MaxLimit Milli = 1024 * 1000

// String writes the amount as Kubernetes does: "2" or "1500m".
func (m Milli) String() string {
	if m%1000 == 0 {
		return strconv.FormatInt(int64(m/1000), 10)
	}
	return strconv.FormatInt(int64(m), 10) + "m"
}

// CPUs returns the number of CPUs that a view of this amount has: the amount
// rounded up.
func (m Milli) CPUs() int { return int((m + 999) / 1000) }

// ParseMilli reads an amount of CPU as Kubernetes writes it: "3500m", "3.5" or
// "4". More than three decimals, signs, exponents and amounts above MaxLimit are
// errors; zero is not.
func ParseMilli(s string) (Milli, error) {
	wrong := func(reason string) (Milli, error) {
		if len(s) > 40 {
			s = s[:40] + "…"
		}
		return 0, fmt.Errorf("CPU amount %q: %s", s, reason)
	}
	const accepted = "want a number of CPUs such as 2, 1.5 or 1500m"
	digits, isMilli := strings.CutSuffix(s, "m")
	whole, decimals, hasPoint := strings.Cut(digits, ".")
	if whole == "" || hasPoint && (isMilli || decimals == "") {
		return wrong(accepted)
	}
	if strings.Trim(whole+decimals, "0123456789") != "" {
		return wrong(accepted)
	}
	if decimals = strings.TrimRight(decimals, "0"); len(decimals) > 3 {
		return wrong("the smallest step is 1m, a thousandth of a CPU")
	}
	if whole = strings.TrimLeft(whole, "0"); len(whole) > 9 {
		return wrong("more than the largest amount, " + MaxLimit.String())
	}
	if !isMilli {
		whole += decimals + "000"[len(decimals):]
	}
	n, err := strconv.ParseInt("0"+whole, 10, 64)
	if err != nil || Milli(n) > MaxLimit {
		return wrong("more than the largest amount, " + MaxLimit.String())
	}
	return Milli(n), nil
}
