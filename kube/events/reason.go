package events

// A Reason is the reason of an Event, in the form of Kubernetes' reasons.
type Reason string

// The reasons of Events about pods.
const (
	// DowngradedNoLimit: a container with the class sensitive is treated as flexible, because it has no CPU limit.
	DowngradedNoLimit Reason = "DowngradedNoLimit"
	// DowngradedRequestNotLimit: a container with the class sensitive is treated as flexible, because its CPU request is not its
	// limit.
	DowngradedRequestNotLimit Reason = "DowngradedRequestNotLimit"
	// CPUsRefused: the creation of a container was refused.
	CPUsRefused Reason = "CPUsRefused"
	// CPUResizeRefused: an in-place resize was refused. The container keeps its CPUs and limit.
	CPUResizeRefused Reason = "CPUResizeRefused"
	// CPUViewWrong: a sensitive container does not see the CPUs that its limit needs.
	CPUViewWrong Reason = "CPUViewWrong"
	// CPUsRepaired: another program had changed the CPU settings of a container, and Candor restored them.
	CPUsRepaired Reason = "CPUsRepaired"
)

// The reasons of Events about the node.
const (
	// CPUAllocatableDiffers: the kubelet's allocatable CPU differs from the CPU time that Candor can allocate.
	CPUAllocatableDiffers Reason = "CPUAllocatableDiffers"
	// CandorNotConnected: the plugin has no connection to the container runtime.
	CandorNotConnected Reason = "CandorNotConnected"
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{DowngradedNoLimit, DowngradedRequestNotLimit, CPUsRefused, CPUResizeRefused, CPUViewWrong, CPUsRepaired,
		CPUAllocatableDiffers, CandorNotConnected}
}

// eventType returns the type of the Events with a reason. After a repair, the node is in the desired state.
func (r Reason) eventType() string {
	if r == CPUsRepaired {
		return "Normal"
	}
	return "Warning"
}

// action returns what Candor did, or failed to do.
func (r Reason) action() string {
	switch r {
	case CPUResizeRefused:
		return "Resize"
	case CPUViewWrong, CPUAllocatableDiffers:
		return "Check"
	case CPUsRepaired:
		return "Repair"
	case CandorNotConnected:
		return "Connect"
	default:
		return "Allocate"
	}
}
