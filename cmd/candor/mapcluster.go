package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/cpumap"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/kube/survey"
)

// mapCluster draws the nodes of a cluster, or a single node.
func mapCluster(cmd *cobra.Command, of *clusterFlags, name, form, colour string) error {
	if form == "svg" && name == "" {
		return badInput("-o svg: a picture is of one node: want --node NAME")
	}
	c, err := of.client()
	if err != nil {
		return err
	}
	s, err := survey.Read(cmd.Context(), c)
	if err != nil {
		return err
	}
	nodes := s.Nodes
	if name != "" {
		node, err := s.Node(name)
		if err != nil {
			return badInput("--node: %w", err)
		}
		nodes = []survey.Node{*node}
	}
	out, names := cmd.OutOrStdout(), s.Names()
	for i := range nodes {
		n := &nodes[i]
		switch form {
		case "json":
			err = writeNodeJSON(out, n, names)
		case "svg":
			err = writeNodePicture(out, n, names)
		default:
			err = writeNode(out, n, names, i == 0, textOptions(out, colour))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mapOf is the map of a node that has reported.
func mapOf(n *survey.Node, names map[string]podname.Name) *cpumap.Map {
	m := cpumap.Of(n.CPUs)
	m.Names = names
	return m
}

// writeNode draws a node, under its name.
func writeNode(out io.Writer, n *survey.Node, names map[string]podname.Name, first bool, o cpumap.TextOptions) error {
	heading := "Node " + cpumap.Clean(n.Name)
	if !first {
		heading = "\n" + heading
	}
	if n.CPUs == nil {
		_, err := fmt.Fprintf(out, "%s: %s\n", heading, cpumap.Clean(n.Problem))
		return err
	}
	if _, err := fmt.Fprintf(out, "%s: ", heading); err != nil {
		return err
	}
	return mapOf(n, names).Text(out, o)
}

// writeNodeJSON writes a node as a JSON line.
func writeNodeJSON(out io.Writer, n *survey.Node, names map[string]podname.Name) error {
	var line struct {
		Node    string          `json:"node"`
		Problem string          `json:"problem,omitempty"` // reason for a missing map
		Map     json.RawMessage `json:"map,omitempty"`     // as candor map writes it on the node
	}
	line.Node, line.Problem = n.Name, n.Problem
	if n.CPUs != nil {
		var text bytes.Buffer
		if err := mapOf(n, names).JSON(&text); err != nil {
			return err
		}
		line.Map = bytes.TrimSpace(text.Bytes())
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(line)
}

// writeNodePicture draws a node as a picture.
func writeNodePicture(out io.Writer, n *survey.Node, names map[string]podname.Name) error {
	if n.CPUs == nil {
		return badInput("--node %s: %s", n.Name, n.Problem)
	}
	return mapOf(n, names).SVG(out)
}
