package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/ledger"
)

const ledgerTable = `NAME             LIMIT  OWN    LOG    SHIM   EXEC  READ   METHOD
default/web/app  500m   0.250  0.300  0.050  -     0.100  bpf, exact
idle             none   0.000  -      -      -     -      
(dockerd)               0.020                             unattributed

The CPU time of some helpers is unattributed or missing: a process ended
`

// TestLedgerTable: the table of two readings, which are two seconds apart, with the busiest helpers first.
func TestLedgerTable(t *testing.T) {
	start := time.Now()
	total := func(kind ledger.Kind, method ledger.Method, ms time.Duration) ledger.Total {
		return ledger.Total{Kind: kind, Method: method, Time: ms * time.Millisecond}
	}
	reading := func(at time.Time, totals []ledger.Total, unattributed, own time.Duration) *ledgerReading {
		return &ledgerReading{
			at: at, used: map[string]time.Duration{"/web": own},
			containers: []audit.Container{{Name: "idle", ID: "idle"}, {Name: "default/web/app", ID: "web", Group: "/web", Limit: 500}, {Name: "none", ID: "none"}},
			helpers: &helpers.Reading{
				At: at, Method: ledger.BPF, Failure: errors.New("a process\nended"),
				Totals: map[string][]ledger.Total{"web": totals, "idle": nil}, Unattributed: map[string]time.Duration{"dockerd": unattributed},
			},
		}
	}
	r := newLedgerReport(reading(start, nil, time.Second, time.Second), reading(start.Add(2*time.Second), []ledger.Total{
		total(ledger.Log, ledger.BPF, 600), total(ledger.Shim, ledger.Exact, 100), total(ledger.Read, ledger.BPF, 200),
	}, 1040*time.Millisecond, 1500*time.Millisecond))
	var out bytes.Buffer
	if err := r.writeTable(&out, 0); err != nil || out.String() != ledgerTable {
		t.Errorf("%v, got\n%s\nwant\n%s", err, out.String(), ledgerTable)
	}
	if len(r.Containers) != 2 || r.Containers[0].Charged != 0.35 {
		t.Errorf("got %+v, want 0.35 CPUs charged to web: readers of the log are not charged", r.Containers)
	}
}

const packetTable = `NAME       LIMIT  OWN    LOG  SHIM   EXEC  RX     CREDIT  READ  METHOD
web        none   0.000  -    0.050  -     0.110  0.000   -     bpf, exact
batch      none   0.000  -    -      -     -      0.105   -     
old        none   0.000  -    -      -     -      -       -     
(softirq)         0.010                                         unattributed
`

// TestLedgerTableOfPackets: with --softirq, the table has the columns RX and CREDIT.
func TestLedgerTableOfPackets(t *testing.T) {
	start := time.Now()
	reading := func(at time.Time, shim, rx, credit time.Duration) *ledgerReading {
		return &ledgerReading{at: at, containers: []audit.Container{{Name: "web", ID: "web"}, {Name: "old", ID: "old"}, {Name: "batch", ID: "batch"}},
			helpers: &helpers.Reading{At: at, Method: ledger.BPF,
				Totals: map[string][]ledger.Total{"batch": nil, "old": nil, "web": {
					{Kind: ledger.Shim, Method: ledger.Exact, Time: shim}, {Kind: ledger.RX, Method: ledger.BPF, Time: rx}}},
				Credits: map[string]time.Duration{"web": 0, "batch": credit}, Unattributed: map[string]time.Duration{"softirq": rx / 11},
			}}
	}
	r := newLedgerReport(reading(start, 0, 0, 0), reading(start.Add(time.Second), 50*time.Millisecond, 110*time.Millisecond, 105*time.Millisecond))
	var out bytes.Buffer
	if err := r.writeTable(&out, 0); err != nil || out.String() != packetTable {
		t.Errorf("%v, got\n%s\nwant\n%s", err, out.String(), packetTable)
	}
	if web := r.Containers[0]; web.Charged != 0.16 || web.Credit == nil || *web.Credit != 0 || r.Containers[2].Credit != nil {
		t.Errorf("got %+v, want 0.16 CPUs charged to web, a credit of 0, and none for old", r.Containers)
	}
}

// TestLedgerJSON: the JSON has uses in milli-CPU, and marks a measurement that was stopped.
func TestLedgerJSON(t *testing.T) {
	credit := 0.0015
	r := &ledgerReport{During: 2, Method: ledger.BPF, Unattributed: map[string]float64{"dockerd": 0.02}, Containers: []ledgerRow{
		{Name: "web", ID: "a", Limit: 500, Own: 1.0 / 3, Charged: 0.35, Credit: &credit, Uses: []helpers.Use{{Kind: ledger.Log, Method: ledger.BPF, CPUs: 0.35}}},
		{Name: "idle", ID: "b"},
	}}
	want := `{"duringSeconds":2,"method":"bpf","containers":[` +
		`{"name":"web","container":"web","id":"a","limitMilli":500,"ownMilli":333.333,"helpersMilli":350,"creditMilli":1.5,"helpers":[{"helper":"log","method":"bpf","useMilli":350}]},` +
		`{"name":"idle","container":"idle","id":"b","limitMilli":0,"ownMilli":0,"helpersMilli":0,"helpers":[]}],"unattributedMilli":{"dockerd":20}}` + "\n"
	var out bytes.Buffer
	if err := writeJSONLine(&out, r.document()); err != nil || out.String() != want {
		t.Errorf("%v, got\n%swant\n%s", err, &out, want)
	}
	r.Partial = true
	out.Reset()
	if err := writeJSONLine(&out, r.document()); err != nil || !strings.HasPrefix(out.String(), `{"partial":true,"duringSeconds":2,`) {
		t.Errorf("%v, %s", err, &out)
	}
	out.Reset()
	if err := r.writeTable(&out, 0); err != nil || !strings.HasPrefix(out.String(), "Partial result: the measurement covers 2.0 s.\nNAME ") {
		t.Errorf("%v, %s", err, &out)
	}
}

const busyTable = `
Helpers use more than 5 % of these limits, in CPUs:

NAME  RUNTIME  LIMIT  HELPERS  SHARE  WORK
web   docker   500m   0.350    70%    log 0.300, shim 0.050
sys   podman   none   0.100    10%    log 0.100

docker: write fewer lines, or set --log-driver local (cheaper than json-file) or none.
podman: write fewer lines, set --log-driver none, or a --cgroup-parent with a quota, which bounds conmon too.

The CPU time of containerd and dockerd is not divided among containers: no rights
`

// TestBusyHelpers: containers whose helpers use more than 5 % of the limit, or of a CPU without a limit.
func TestBusyHelpers(t *testing.T) {
	found := []audit.Container{{Name: "sys", ID: "sys", Runtime: "podman"}, {Name: "calm", ID: "calm", Limit: 1000, Sees: 1}, {Name: "web", ID: "web", Runtime: "docker", Limit: 500, Sees: 1}}
	figures := &helpers.Figures{Refusal: errors.New("no rights"), Containers: map[string][]helpers.Use{
		"sys":  {{Kind: ledger.Log, Method: ledger.Exact, CPUs: 0.1}},
		"calm": {{Kind: ledger.Log, Method: ledger.BPF, CPUs: 0.04}, {Kind: ledger.Read, Method: ledger.BPF, CPUs: 0.5}},
		"web":  {{Kind: ledger.Log, Method: ledger.BPF, CPUs: 0.3}, {Kind: ledger.Shim, Method: ledger.Exact, CPUs: 0.05}},
	}}
	var out bytes.Buffer
	if err := writeBusyHelpers(&out, 0, busyHelpers(found, figures), figures.Problems()); err != nil || out.String() != busyTable {
		t.Errorf("%v, got\n%s\nwant\n%s", err, out.String(), busyTable)
	}
	rows := auditRows(found, false, figures)
	if len(rows) != 2 || rows[1].Name != "web" || *rows[1].Helpers != 350 {
		t.Errorf("without --all: got %+v, want sys and web", rows)
	}
	out.Reset()
	if err := writeBusyHelpers(&out, 0, busyHelpers(found, nil), (*helpers.Figures)(nil).Problems()); err != nil || out.Len() != 0 {
		t.Errorf("without a measurement: %v, %q", err, out.String())
	}
}
