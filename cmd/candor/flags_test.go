package main

import "testing"

func TestAmounts(t *testing.T) {
	for got, want := range map[string]string{
		count(0, "process", "processes"):         "0 processes",
		count(1, "process", "processes"):         "1 process",
		count(uint64(2), "process", "processes"): "2 processes",
		amount(1000):                             "1 CPU",
		amount(4000):                             "4 CPUs",
		amount(600):                              "600m",
		amount(1500):                             "1500m",
		limit(0):                                 "none",
		limit(1000):                              "1 CPU",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
