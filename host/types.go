package host

import "github.com/candor-project/candor/host/state"

// Aliases of the types of package state that operations take and return.
type (
	Grant   = state.Grant
	Engine  = state.Engine
	Process = state.Process
)

// The phases of a grant.
const (
	Pending = state.Pending
	Running = state.Running
	Held    = state.Held
)
