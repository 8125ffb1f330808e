// Package containerd holds the tests of candor nri against a real containerd: a module of its
// own, so that who builds Candor does not fetch what speaks to containerd. scripts/test-deps.sh builds
// the programs that the tests start.
package containerd
