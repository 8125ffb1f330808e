// Package containerd holds the tests of candor nri against a real containerd. It is a separate module, so that a build of Candor
// does not fetch containerd's client. scripts/test-deps.sh builds the programs that the tests start.
package containerd
