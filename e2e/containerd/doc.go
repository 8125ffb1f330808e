// Package containerd contains the tests of candor nri with a real containerd. The package is in a separate Go module, so that a
// build of Candor does not download containerd's client. scripts/test-deps.sh builds the programs that the tests start.
package containerd
