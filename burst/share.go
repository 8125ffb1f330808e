package burst

// A Member is a group among others on the same CPUs.
type Member struct {
	Limit float64 // CPUs
	Over  float64 // CPUs that it uses beyond its limit
	Wants bool    // Decision.Wants
}

// reserve is the part of the CPUs that is to stay idle: for who comes.
const reserve = 0.05

// Shares divides what is idle of some CPUs among groups that may use more than their limits, by those limits:
// CPUs for each. What they use beyond them counts as idle while the reserve is there; as that
// is eaten up they give way, each by its part, down to half of it at each call.
func Shares(cpus, idle float64, members []Member) []float64 {
	over, limits := 0.0, 0.0
	for _, m := range members {
		over += m.Over
		if m.Wants {
			limits += m.Limit
		}
	}
	kept := reserve * cpus
	spare := over + idle - kept
	if idle < kept {
		spare = over * (1 + idle/kept) / 2
	}
	shares := make([]float64, len(members))
	for i, m := range members {
		if m.Wants {
			shares[i] = spare * m.Limit / limits
		}
	}
	return shares
}
