package packing

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

var readable = List{[]string{CPU, "memory"}, []Item{{"web", []int64{1500, 512}}, {"db", []int64{2000, 4096}}}}

// CSV and JSON with the same content give the same list.
func TestRead(t *testing.T) {
	for _, text := range []string{
		"name,cpu,memory\nweb,1.5,512\ndb,2,4096\n",
		"memory,name,cpu\n512,web,1500m\n\n4096,\"db\",2000m",
		`[{"name":"web","cpu":"1500m","memory":512},{"memory":"4096","name":"db","cpu":2}]`,
		" \n[\n {\"name\":\"web\",\"cpu\":1.5,\"memory\":512},\n {\"name\":\"db\",\"cpu\":\"2\",\"memory\":4096}]\n",
	} {
		got, err := Read(strings.NewReader(text), "apps")
		if err != nil || !reflect.DeepEqual(got, readable) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, readable)
		}
	}
}

// Errors name the invalid line.
func TestReadBad(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", `apps:1: empty: must start with a heading such as "name,cpu,memory"`},
		{"name,cpu\n", "apps:1: no rows after the heading"},
		{"name,memory\na,1\n", `apps:1: heading "name, memory": must be "name", "cpu" and any further resources`},
		{"name,cpu,cpu\n", `apps:1: heading: "cpu" twice`},
		{"name,cpu, memory\n", `apps:1: heading " memory": must be the name of a resource`},
		{"name,cpu\na,1\nb\n", "apps:3: wrong number of fields"},
		{"name,cpu\na,1\nb,-1\n", `apps:3: CPU amount "-1": must be a number of CPUs such as 2, 1.5 or 1500m`},
		{"name,cpu\na,NaN\n", `apps:2: CPU amount "NaN": must be a number of CPUs such as 2, 1.5 or 1500m`},
		{"name,cpu,memory\na,1,1.5\n", `apps:2: memory "1.5": must be a whole number from 0 to 100000000000000`},
		{"name,cpu,memory\na,1,-3\n", `apps:2: memory "-3": must be a whole number from 0 to 100000000000000`},
		{"name,cpu\na,1\n\na,2\n", `apps:4: name "a": there is one already`},
		{"name,cpu\n,1\n", `apps:2: name "": must be up to 200 bytes without surrounding space`},
		{"name,cpu\n\"a,1\n", `apps:2: extraneous or missing " in quoted-field`},
		{"[]", "apps:1: an empty list"},
		{"[1]", "apps:1: 1: must be an object"},
		{"[\n{\"name\":\"a\",\"cpu\":1},\n{\"name\":\"b\"}]", "apps:3: keys name: must be the keys of the first object, name, cpu"},
		{"[\n{\"name\":\"a\",\"cpu\":1,\"cpu\":2}]", `apps:2: key "cpu" twice`},
		{"[{\"name\":\"a\",\"cpu\":[1]}]", `apps:1: "cpu" is [: must be a string or a number`},
		{"[\n{\"name\":\"a\",\"cpu\":1}", "apps:2: the list breaks off"},
		{"[\n{\"name\":\"a\",\"cpu\":1}]\n[]", "apps:3: something behind the list"},
		{"[\n{\"name\":\"a\",\ncpu:1}]", "apps:3: invalid character 'c'"},
	} {
		_, err := Read(strings.NewReader(test.text), "apps")
		if syntax := (*SyntaxError)(nil); !errors.As(err, &syntax) || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%q: %v; want %s", test.text, err, test.want)
		}
	}
}

// Nodes and applications must have the same resources.
func TestOtherResources(t *testing.T) {
	nodes := List{[]string{CPU, "disk"}, []Item{{"n", []int64{1000, 1}}}}
	if _, err := Solve(readable, nodes, Nodes); err == nil || err.Error() != "applications have the resources cpu, memory, nodes cpu, disk: must be the same" {
		t.Error(err)
	}
}

// For every file, Read returns a list with valid rows, or an error with a line.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"name,cpu,memory\nweb,1.5,512\n", `[{"name":"web","cpu":"1500m","memory":512}]`, "[", "name,cpu\n\"", "[{}]", "[null]"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Read(strings.NewReader(string(text)), "f")
		if syntax := (*SyntaxError)(nil); err != nil {
			if !errors.As(err, &syntax) || syntax.Line < 1 || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q", err)
			}
			return
		}
		if len(list.Items) == 0 || list.Resources[0] != CPU {
			t.Fatalf("%+v", list)
		}
		for _, thing := range list.Items {
			if thing.Name == "" || len(thing.Amounts) != len(list.Resources) {
				t.Fatalf("%+v", thing)
			}
			for _, amount := range thing.Amounts {
				if amount < 0 || amount > MaxAmount {
					t.Fatalf("%+v", thing)
				}
			}
		}
	})
}
