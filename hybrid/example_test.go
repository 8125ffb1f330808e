package hybrid_test

import (
	"errors"
	"fmt"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// fourCPUs returns a node of four CPUs.
func fourCPUs() *hybrid.Node {
	machine, err := topology.Parse("core:4 pu:1")
	if err != nil {
		panic(err)
	}
	node, err := hybrid.NewNode(machine, hybrid.Options{})
	if err != nil {
		panic(err)
	}
	return node
}

// Plan changes nothing. Commit applies the plan.
func Example() {
	node := fourCPUs()
	plan, err := node.Plan(hybrid.Request{ID: "web", Class: hybrid.Sensitive, Limit: 1500})
	if err != nil {
		panic(err)
	}
	fmt.Println("before:", node.Len(), "containers")
	if err := node.Commit(plan); err != nil {
		panic(err)
	}

	grant, _ := node.Grant("web")
	fmt.Printf("web sees CPUs %v: CPU %v is exclusive, CPU %d gives %v\n", grant.CPUs, grant.Exclusive, grant.Fractions[0].CPU, grant.Fractions[0].Milli)
	fmt.Println("shared CPUs:", node.Pools().Shared)
	// Output:
	// before: 0 containers
	// web sees CPUs 0-1: CPU 0 is exclusive, CPU 1 gives 500m
	// shared CPUs: 2-3
}

// Explain lists the decisions of a plan.
func ExamplePlan_Explain() {
	node := fourCPUs()
	plan, err := node.Plan(hybrid.Request{ID: "web", Class: hybrid.Sensitive, Limit: 2000})
	if err != nil {
		panic(err)
	}
	for _, step := range plan.Explain() {
		fmt.Printf("%s %q\n", step.Kind, step.CPUs) // step.Text is the text for people
	}
	// Output:
	// whole-cpus "0-1"
	// topology "0-1"
	// quota ""
	// shared ""
}

// The kind of a refusal is an error value.
func ExampleRefusal() {
	node := fourCPUs()
	_, err := node.Plan(hybrid.Request{ID: "huge", Class: hybrid.Sensitive, Limit: 5000})
	fmt.Println(errors.Is(err, hybrid.ErrNoCapacity), errors.Is(err, hybrid.ErrViewImpossible))

	if refusal, ok := errors.AsType[*hybrid.Refusal](err); ok {
		fmt.Println(refusal.ID, "requires", refusal.Wanted, "of", refusal.Capacity, "CPUs")
	}
	// Output:
	// true false
	// huge requires 5 of 4 CPUs
}

// The CPUs of a released container return to the flexible containers.
func ExampleNode_PlanRelease() {
	node := fourCPUs()
	for _, request := range []hybrid.Request{
		{ID: "web", Class: hybrid.Sensitive, Limit: 2000},
		{ID: "log", Class: hybrid.Flexible, Limit: 1000},
	} {
		plan, err := node.Plan(request)
		if err == nil {
			err = node.Commit(plan)
		}
		if err != nil {
			panic(err)
		}
	}
	plan, err := node.PlanRelease("web")
	if err != nil {
		panic(err)
	}
	for _, change := range plan.Others {
		fmt.Println(change.After.ID, "runs on", change.Before.CPUs, "before and on", change.After.CPUs, "afterwards")
	}
	// Output: log runs on 2-3 before and on 0-3 afterwards
}

// ParseMilli parses amounts of CPU in Kubernetes' notation.
func ExampleParseMilli() {
	limit, err := hybrid.ParseMilli("3.5")
	if err != nil {
		panic(err)
	}
	fmt.Println(limit, "is a view of", limit.CPUs(), "CPUs")
	// Output: 3500m is a view of 4 CPUs
}
