package metrics

// A Reason is why a container was refused or taken for flexible, or a report not published. They are few: each is
// a series of its own. The log has the whole of it.
type Reason string

const (
	NoCapacity     Reason = "no-capacity"
	ViewImpossible Reason = "view-impossible"
	BadAnnotation  Reason = "annotation"
	OthersCPUs     Reason = "cpuset" // another program sets the container's cpuset
	NameTaken      Reason = "name-taken"
	BadRequest     Reason = "bad-request"
	Other          Reason = "other" // the state's lock, the kernel, the disk

	Unreachable Reason = "unreachable" // the API server does not answer, or not in time
	Forbidden   Reason = "forbidden"   // rights, a policy, a token
	Conflict    Reason = "conflict"    // another program has written the report
	Invalid     Reason = "invalid"     // the API server has no such object, or another version of it
	BadState    Reason = "state"       // the node's own state cannot be read

	NoLimit         Reason = "no-limit"
	RequestNotLimit Reason = "request-not-limit"
)

var (
	refusals   = []Reason{NoCapacity, ViewImpossible, BadAnnotation, OthersCPUs, NameTaken, BadRequest, Other}
	downgrades = []Reason{NoLimit, RequestNotLimit}
	unsaid     = []Reason{Unreachable, Forbidden, Conflict, Invalid, BadState}
)
