package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/ledger"
)

// TestLedger: the totals of containers with equal labels are added. A name with invalid UTF-8 is replaced and
// does not fail the scrape.
func TestLedger(t *testing.T) {
	web := podname.Name{Namespace: "default", Pod: "web-0", Container: "app"}
	m := NewLedger("test", func() *HelperReading {
		return &HelperReading{
			Containers: []HelperTotals{
				{Name: web, Totals: []ledger.Total{{Kind: ledger.Log, Method: ledger.BPF, Time: 1500 * time.Millisecond}, {Kind: ledger.Shim, Method: ledger.Exact, Time: time.Second}},
					Credited: time.Second, HasRX: true},
				{Name: web, Totals: []ledger.Total{{Kind: ledger.Log, Method: ledger.BPF, Time: 500 * time.Millisecond}, {Kind: ledger.RX, Method: ledger.BPF, Time: 125 * time.Millisecond}},
					Credited: 500 * time.Millisecond, HasRX: true},
				{Name: podname.Name{Container: "a\xff"}, Totals: []ledger.Total{{Kind: ledger.Log, Method: ledger.Exact, Time: time.Second}}},
			},
			Unattributed: map[string]time.Duration{"containerd": 250 * time.Millisecond},
			Accounts: []ChargedAccount{
				{Name: podname.Name{Container: "b\xff"}, Saved: time.Second}, {Name: podname.Name{Container: "b?"}, Saved: time.Second, IsCharged: true},
			},
			Dropped: 10 * time.Millisecond,
		}
	})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, family := range families {
		if strings.Contains(family.GetName(), "helper") || strings.Contains(family.GetName(), "credited") {
			if _, err := expfmt.MetricFamilyToText(&got, family); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := `
# HELP candor_container_credited_cpu_seconds_total CPU time that a container has paid for packets of other containers.
# TYPE candor_container_credited_cpu_seconds_total counter
candor_container_credited_cpu_seconds_total{container="app",namespace="default",pod="web-0"} 1.5
# HELP candor_container_helper_account_seconds CPU time that a charged container can still use: allowed by its limit, minus its own and its helpers' CPU time. Negative: debt.
# TYPE candor_container_helper_account_seconds gauge
candor_container_helper_account_seconds{container="b?",namespace="",pod=""} 2
# HELP candor_container_helper_charged 1 if a container has less CPU time than its limit now, because its helpers use the rest. It looks throttled then.
# TYPE candor_container_helper_charged gauge
candor_container_helper_charged{container="b?",namespace="",pod=""} 1
# HELP candor_container_helper_cpu_seconds_total CPU time that helpers have spent for a container, by the kind of work and the method of its measurement.
# TYPE candor_container_helper_cpu_seconds_total counter
candor_container_helper_cpu_seconds_total{container="a?",helper="log",method="exact",namespace="",pod=""} 1
candor_container_helper_cpu_seconds_total{container="app",helper="log",method="bpf",namespace="default",pod="web-0"} 2
candor_container_helper_cpu_seconds_total{container="app",helper="rx",method="bpf",namespace="default",pod="web-0"} 0.125
candor_container_helper_cpu_seconds_total{container="app",helper="shim",method="exact",namespace="default",pod="web-0"} 1
# HELP candor_helper_dropped_cpu_seconds_total CPU time that helpers have spent for containers that had ended.
# TYPE candor_helper_dropped_cpu_seconds_total counter
candor_helper_dropped_cpu_seconds_total 0.01
# HELP candor_helper_unattributed_cpu_seconds_total CPU time of a daemon that no container caused, or whose container is not known.
# TYPE candor_helper_unattributed_cpu_seconds_total counter
candor_helper_unattributed_cpu_seconds_total{daemon="containerd"} 0.25
`
	if "\n"+got.String() != want {
		t.Errorf("got\n%s\nwant%s", got.String(), want)
	}
}
