package metrics

// A Reason is the label of a counter of refused containers, downgraded containers or failed reports. There are few
// reasons, because each is a time series. The log has the details.
type Reason string

// The reasons of refused containers, failed reports and downgraded containers.
const (
	NoCapacity     Reason = "no-capacity"
	ViewImpossible Reason = "view-impossible"
	BadAnnotation  Reason = "annotation"
	OthersCPUs     Reason = "cpuset" // another program sets the container's cpuset
	NameTaken      Reason = "name-taken"
	BadRequest     Reason = "bad-request"
	Other          Reason = "other" // such as the state's lock, the kernel or the disk

	Unreachable Reason = "unreachable" // the API server does not answer, or not in time
	Forbidden   Reason = "forbidden"   // the access rights, an admission policy or the token
	Conflict    Reason = "conflict"    // another program has written the report
	Invalid     Reason = "invalid"     // the API server has no such object, or another version of it
	BadState    Reason = "state"       // the state of the node cannot be read

	NoLimit         Reason = "no-limit"
	RequestNotLimit Reason = "request-not-limit"
)

var (
	refusals   = []Reason{NoCapacity, ViewImpossible, BadAnnotation, OthersCPUs, NameTaken, BadRequest, Other}
	downgrades = []Reason{NoLimit, RequestNotLimit}
	unsaid     = []Reason{Unreachable, Forbidden, Conflict, Invalid, BadState}
)
