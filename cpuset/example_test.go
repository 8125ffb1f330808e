package cpuset_test

import (
	"errors"
	"fmt"

	"github.com/candor-project/candor/cpuset"
)

// Sets read and write the kernel's list format.
func Example() {
	online, err := cpuset.Parse("0-3,8,10-11\n") // such as /sys/devices/system/cpu/online
	if err != nil {
		panic(err)
	}
	reserved := cpuset.Of(0, 1)
	usable := online.Minus(reserved)
	fmt.Println(usable, "has", usable.Count(), "CPUs")
	fmt.Println("the lowest two:", usable.Lowest(2))
	// Output:
	// 2-3,8,10-11 has 5 CPUs
	// the lowest two: 2-3
}

// A set is a plain value: == compares two sets, and a set can be the key of a map.
func ExampleSet_All() {
	node := cpuset.Range(4, 7)
	owner := map[cpuset.Set]string{node: "web"}
	for cpu := range node.All() {
		fmt.Print(cpu, " ")
	}
	fmt.Println(owner[cpuset.MustParse("4-7")], node == cpuset.Of(7, 6, 5, 4))
	// Output: 4 5 6 7 web true
}

// The error of a bad list names the part that cannot be read.
func ExampleParse() {
	_, err := cpuset.Parse("0-3,7-5")
	if bad, ok := errors.AsType[*cpuset.SyntaxError](err); ok {
		fmt.Println("bad part:", bad.Part)
	}

	none, err := cpuset.Parse("")
	fmt.Println(none.IsEmpty(), err)
	// Output:
	// bad part: 7-5
	// true <nil>
}

// A Compact takes 16 bytes: programs that hold thousands of sets use it.
func ExampleCompact() {
	var c cpuset.Compact
	c.Add(2)
	c.Add(5)
	fmt.Println(c.Set(), c.Contains(5), c.Next(3))
	// Output: 2,5 true 5
}
