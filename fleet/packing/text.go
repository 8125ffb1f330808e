package packing

import (
	"strconv"

	"github.com/candor-project/candor/hybrid"
)

// amountText writes an amount of a resource.
func amountText(resource string, amount int64) string {
	if resource == CPU {
		return hybrid.Milli(amount).String()
	}
	return strconv.FormatInt(amount, 10)
}
