// Package prefetch requests memory before its use, so that the memory is then in the CPU's cache. It has no other effect: any
// address is valid, and no call waits. It pays off for memory outside the caches: a cache miss takes as long as a few hundred
// instructions, and eight requests take hardly longer than a single request.
//
// Go's runtime has this instruction, but does not export it. The package therefore has a few lines of assembly for amd64 and arm64.
// On other architectures the functions have no effect.
package prefetch

// LineSize is the size of a cache line in bytes.
const LineSize = 64
