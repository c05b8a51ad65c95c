package client

import (
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
)

// Planner is the planner's part of the local API: the plans that the agent keeps, and tuning.
func (c *Client) Planner() apiv1connect.PlannerServiceClient {
	return apiv1connect.NewPlannerServiceClient(c.http, "http://gridagent")
}
