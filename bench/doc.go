// Package bench measures allocators of other projects beside package hybrid, in one run. It is a module of its
// own, so that Candor does not depend on them:
//
//	cd bench && go test -bench . -count 10
//
// docs/benchmarks/allocator.md has the results and explains the comparison.
package bench
