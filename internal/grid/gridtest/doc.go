// Package gridtest runs tests over whole grids of agents in virtual time.
//
//	gridtest.Run(t, gridtest.Config{Grid: gridtest.Load(t, "../../configs/grids/paper-3site.yaml")}, func(c *gridtest.Cluster) {
//		job := c.Job("min3", c.EachHost(), 64<<10)
//		run := c.MustRun(job) // every rank has the right bytes
//		if b := c.Bound(job); run.Makespan > 2*b {
//			c.T.Errorf("makespan %v, bound %v", run.Makespan, b)
//		}
//	})
//
// [Run] starts the grid in a synctest bubble and ends the test if anything is left
// over: a goroutine, a connection, a file in a spool folder. A watchdog outside the bubble
// ends the process if the bubble's clock stands still.
//
// Place in the flow: beside it, above internal/grid; only tests import it.
package gridtest
