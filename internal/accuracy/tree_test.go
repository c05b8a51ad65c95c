package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/internal/grid"
)

// A tree is what matters of a pool tree: which hosts stand together, and the number that the agent gave it.
type tree struct {
	epoch uint64
	shape string
}

// poolTree asks the agent of host i for the tree that it plans with.
func poolTree(ctx context.Context, g *grid.Grid, i int) (tree, error) {
	c := g.Client(i)
	defer c.Close()
	res, err := c.API().Pools(ctx, connect.NewRequest(&apiv1.PoolsRequest{}))
	if err != nil {
		return tree{}, err
	}
	shape, err := shapeOf(res.Msg.TreeJson)
	return tree{res.Msg.PoolsEpoch, shape}, err
}

// shapeOf returns which hosts stand together in a pool tree, as JSON has it.
func shapeOf(text []byte) (string, error) {
	var doc struct{ Root pool }
	if err := json.Unmarshal(text, &doc); err != nil {
		return "", err
	}
	return doc.Root.shape(), nil
}

type pool struct {
	Hosts    []string
	Children []pool
}

func (p pool) shape() string {
	if len(p.Children) == 0 {
		hosts := slices.Clone(p.Hosts)
		slices.Sort(hosts)
		return "{" + strings.Join(hosts, " ") + "}"
	}
	var in []string
	for _, c := range p.Children {
		in = append(in, c.shape())
	}
	slices.Sort(in)
	return "(" + strings.Join(in, " ") + ")"
}
