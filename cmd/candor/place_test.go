package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// placeFiles writes the input files of candor place and returns their paths.
func placeFiles(t *testing.T, apps, nodes string) (appFile, nodeFile string) {
	t.Helper()
	dir := t.TempDir()
	appFile, nodeFile = filepath.Join(dir, "apps"), filepath.Join(dir, "nodes")
	for name, text := range map[string]string{appFile: apps, nodeFile: nodes} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return appFile, nodeFile
}

func TestPlaceBadInput(t *testing.T) {
	const good = "name,cpu,memory\na,1,10\n"
	for _, test := range []struct {
		apps, nodes string
		flags       []string
		code        int
		want        string
	}{
		{good, good, nil, 0, ""},
		{good, good, []string{"--minimize", "cost"}, 2, `"cost": must be one of nodes, sharing`},
		{good, good, []string{"-o", "svg"}, 2, "svg"},
		{good, good, []string{"--nodes", ""}, 2, "missing --nodes; must be a file in CSV or JSON"},
		{good, good, []string{"--apps", "missing"}, 2, "--apps: open missing: no such file or directory"},
		{"name,cpu,memory\na,1\n", good, nil, 2, "apps:2: wrong number of fields"},
		{good, "name,cpu,memory\nn,-1,2\n", nil, 2, `nodes:2: CPU amount "-1"`},
		{good, "name,cpu,disk\nn,1,10\n", nil, 2, "applications have the resources cpu, memory, nodes cpu, disk: must be the same"},
		{good, "name,cpu,memory\nn,1,9\n", nil, 1, "no allocation: a needs 10 of memory, the largest node has 9"},
	} {
		apps, nodes := placeFiles(t, test.apps, test.nodes)
		code, _, errOut := command(t, "", append([]string{"place", "--apps", apps, "--nodes", nodes}, test.flags...)...)
		if code != test.code || !strings.Contains(errOut, test.want) || strings.Count(errOut, "\n") > 1 {
			t.Errorf("%q, %q, %v: exit code %d, %q; want %d, %q", test.apps, test.nodes, test.flags, code, errOut, test.code, test.want)
		}
	}
}

func TestPlaceJSON(t *testing.T) {
	apps, nodes := placeFiles(t, "name,cpu,disk\na,1.5,3\nb,500m,4\n", `[{"name":"n","disk":1,"cpu":1},{"name":"m","disk":10,"cpu":2}]`)
	code, out, errOut := command(t, "", "place", "--apps", apps, "--nodes", nodes, "-o", "json")
	var got struct {
		Matrix  [][]int
		Nodes   []placedNode
		Shared  int64 `json:"sharedMilli"`
		Used    int   `json:"nodesUsed"`
		Optimal bool
		Least   bool `json:"sharesLeast"`
	}
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil {
		t.Fatalf("exit code %d, %q, %v", code, errOut, err)
	}
	if got.Used != 1 || got.Shared != 1000 || !got.Optimal || !got.Least || len(got.Matrix) != 2 || got.Matrix[0][1] != 1 || got.Matrix[1][1] != 1 {
		t.Errorf("%s", out)
	}
	want := []placedNode{{"n", 0, 0, 1000, []placedResource{{"disk", 0, 1}}}, {"m", 2, 2000, 2000, []placedResource{{"disk", 7, 10}}}}
	if !reflect.DeepEqual(got.Nodes, want) {
		t.Errorf("%+v, want %+v", got.Nodes, want)
	}
}

type (
	placedNode struct {
		Name                    string
		Applications            int
		UseMilli, CapacityMilli int64
		Resources               []placedResource
	}
	placedResource struct {
		Name          string
		Use, Capacity int64
	}
)

// TestPlaceUse: the text has the use of every resource of each node. The files can have the resources in different orders.
func TestPlaceUse(t *testing.T) {
	apps, nodes := placeFiles(t, "name,cpu,disk,gpu\na,1.5,3,0\nb,500m,4,0\n", "gpu,disk,name,cpu\n0,10,m,2.5\n")
	code, out, errOut := command(t, "", "place", "--apps", apps, "--nodes", nodes)
	const want = "\nNODE  APPLICATIONS  CPU               DISK           GPU\nm     2             2 of 2500m (80 %)  7 of 10 (70 %)  0 of 0 (-)\n\n1 of 1 nodes used"
	if squeeze := strings.Join(strings.Fields(out), " "); code != 0 || !strings.Contains(squeeze, strings.Join(strings.Fields(want), " ")) {
		t.Errorf("%d, %s\n%s", code, errOut, out)
	}
}
