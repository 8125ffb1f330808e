package podcpu

import (
	"errors"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// mostDigits bounds an exponent: no resource has as much, or as little.
const mostDigits = 30

// Amount parses an amount of a resource in Kubernetes' form. Exponents are bounded, since the text is untrusted: Kubernetes' own code takes
// forever to compare 1e999999999 with 1.
func Amount(text string) (resource.Quantity, error) {
	if at := strings.LastIndexAny(text, "eE"); at >= 0 {
		e, err := strconv.Atoi(text[at+1:])
		if err == nil || errors.Is(err, strconv.ErrRange) {
			text = text[:at+1] + strconv.Itoa(max(min(e, mostDigits), -mostDigits))
		}
	}
	return resource.ParseQuantity(text)
}

// An amount is an amount in JSON: a string, a number, or null.
type amount struct{ resource.Quantity }

// UnmarshalJSON reads it.
func (a *amount) UnmarshalJSON(text []byte) error {
	plain := strings.Trim(string(text), `"`)
	if plain == "" || plain == "null" {
		return nil
	}
	var err error
	a.Quantity, err = Amount(plain)
	return err
}
