//go:build !amd64

package guest

// tscKHz returns 0, which means unknown, because the guest does not read the host's counter on this architecture.
func tscKHz() uint64 { return 0 }
