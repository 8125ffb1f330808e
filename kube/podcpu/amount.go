package podcpu

import (
	"errors"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxExponent bounds the exponent of an amount. No real amount has an exponent above 30 or below -30.
const maxExponent = 30

// Amount parses an amount of a resource in Kubernetes' format, such as 1500m or 2Gi. Amount replaces exponents above 30 by 30,
// and exponents below -30 by -30, because the text is untrusted: Kubernetes' own code would practically never finish comparing
// 1e999999999 with 1.
func Amount(text string) (resource.Quantity, error) {
	if at := strings.LastIndexAny(text, "eE"); at >= 0 {
		e, err := strconv.Atoi(text[at+1:])
		if err == nil || errors.Is(err, strconv.ErrRange) {
			text = text[:at+1] + strconv.Itoa(max(min(e, maxExponent), -maxExponent))
		}
	}
	return resource.ParseQuantity(text)
}

// An amount decodes an amount of a resource from a JSON string, number or null.
type amount struct{ resource.Quantity }

// UnmarshalJSON parses the amount with Amount. null and "" are 0.
func (a *amount) UnmarshalJSON(text []byte) error {
	plain := strings.Trim(string(text), `"`)
	if plain == "" || plain == "null" {
		return nil
	}
	var err error
	a.Quantity, err = Amount(plain)
	return err
}
