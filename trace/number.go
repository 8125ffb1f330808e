package trace

import "hash/fnv"

// JobNumber returns Event.Job for the name of a job in the source. If the name is a number, Event.Job is this number, otherwise it is a
// hash of the name. A number with a leading 0 or with more than 19 digits is hashed, too. So two different names get the same Event.Job
// only by a hash collision.
func JobNumber(name []byte) uint64 {
	if n, ok := parseUint(name); ok && (len(name) == 1 || name[0] != '0') {
		return n
	}
	h := fnv.New64a()
	h.Write(name)
	return h.Sum64()
}

// parseUint parses a decimal number of at most 19 digits, and accepts no other characters.
func parseUint(field []byte) (uint64, bool) {
	if len(field) == 0 || len(field) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range field {
		if c -= '0'; c > 9 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	return n, true
}

// parseScaled parses a non-negative decimal number, such as 0.0625 or 3.8e-06, and returns 10^digits times the number, rounded to the
// nearest integer. It refuses signs, NaN, infinities and results above 10^18.
func parseScaled(field []byte, digits int) (int64, bool) {
	mantissa, exponent, rest := readMantissa(field)
	if len(rest) == len(field) {
		return 0, false
	}
	if len(rest) > 0 {
		e, ok := readExponent(rest)
		if !ok {
			return 0, false
		}
		exponent += e
	}
	return scale(mantissa, exponent+digits)
}

// readMantissa parses digits with at most one decimal point. The number is mantissa times 10^exponent; mantissa has at most 18 digits. rest
// is the remaining text, or the whole field if it has no digit.
func readMantissa(field []byte) (mantissa int64, exponent int, rest []byte) {
	digits, point := 0, false
	i := 0
	for ; i < len(field); i++ {
		c := field[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if c -= '0'; c > 9 {
			break
		}
		digits++
		switch {
		case mantissa < 1e17:
			mantissa = mantissa*10 + int64(c)
			if point {
				exponent--
			}
		case !point:
			exponent++
		}
	}
	if digits == 0 {
		return 0, 0, field
	}
	return mantissa, exponent, field[i:]
}

// readExponent parses an exponent, such as e+06.
func readExponent(text []byte) (int, bool) {
	if text[0] != 'e' && text[0] != 'E' {
		return 0, false
	}
	text = text[1:]
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	e, ok := parseUint(text)
	if !ok || e > 300 {
		return 0, false
	}
	if negative {
		return -int(e), true
	}
	return int(e), true
}

// scale returns n times 10^exponent, rounded to the nearest integer, or false if the result is above 10^18.
func scale(n int64, exponent int) (int64, bool) {
	for ; exponent > 0 && n != 0; exponent-- {
		if n > 1e17 {
			return 0, false
		}
		n *= 10
	}
	rest := int64(0)
	for ; exponent < 0 && n != 0; exponent++ {
		n, rest = n/10, n%10
	}
	if rest >= 5 {
		n++
	}
	return n, true
}
