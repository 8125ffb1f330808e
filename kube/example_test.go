package kube_test

import (
	"fmt"
	"strings"

	"github.com/candor-project/candor/kube"
)

// A setting of a container overrides the setting of its pod.
func ExampleParse() {
	annotations, err := kube.Parse(map[string]string{
		"candor.dev/class":        "sensitive",
		"class.candor.dev/logger": "flexible",
		"prometheus.io/scrape":    "true", // another domain
	})
	if err != nil {
		panic(err)
	}
	for _, container := range []string{"app", "logger"} {
		settings := annotations.For(container)
		fmt.Println(container, *settings.Class)
	}
	// Output:
	// app sensitive
	// logger flexible
}

// Resolve looks for a setting in the annotations, then in the defaults of the namespace and of the node.
func ExampleResolve() {
	annotations, err := kube.Parse(map[string]string{"candor.dev/class": "sensitive"})
	if err != nil {
		panic(err)
	}
	var namespace, node kube.Settings
	if err := namespace.Set("period", "20ms"); err != nil {
		panic(err)
	}
	if err := node.Set("class", "flexible"); err != nil {
		panic(err)
	}
	settings := kube.Resolve(annotations, "app", namespace, node)
	fmt.Println(*settings.Class, *settings.Period)
	// Output: sensitive 20ms
}

// Annotate changes one line of a manifest. Comments and quotes remain.
func ExampleAnnotate() {
	manifest := strings.Join([]string{
		"kind: Pod # of the shop",
		"metadata:",
		"  name: web",
		"spec:",
		"  containers: [{name: app}]",
	}, "\n") + "\n"
	annotated, err := kube.Annotate([]byte(manifest), "", kube.PodKey("class"), "sensitive")
	if err != nil {
		panic(err)
	}
	fmt.Print(string(annotated))
	// Output:
	// kind: Pod # of the shop
	// metadata:
	//   annotations:
	//     candor.dev/class: sensitive
	//   name: web
	// spec:
	//   containers: [{name: app}]
}
