// Package bench compares the allocators of other projects with package hybrid in a single run. It is a
// separate module, so that Candor does not depend on these projects:
//
//	cd bench && go test -bench . -count 10
//
// docs/benchmarks/allocator.md has the results and explains the comparison.
package bench
