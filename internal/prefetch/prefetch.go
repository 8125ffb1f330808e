// Package prefetch tells the CPU which memory will be wanted soon, so that it is in the cache by then. That
// changes nothing else: any address will do, and nobody waits. Where memory is far, it is worth it: to wait for
// a cache line takes as long as a few hundred instructions, and to have asked for eight takes hardly longer than for one.
//
// Go's runtime has that instruction, but lets nobody else use it: so there are a few lines of assembly for amd64 and
// arm64. On other processors the functions do nothing.
package prefetch

// LineSize is that of a cache line, bytes.
const LineSize = 64
