// Package client lets a program be a rank of a gridagent group.
//
//	c := client.New("/var/lib/gridagent/agent.sock")
//	r, err := c.Join(ctx, "job-17", rank, ranks) // returns when all ranks have joined
//	defer r.Close()
//	res, err := r.Allgather(ctx, block, client.Options{})
//	defer res.Close()
//	use(res.Data) // the blocks of all ranks, in rank order
//
//	res, err = r.Alltoall(ctx, blocks, client.AlltoallOptions{}) // one for each rank, in rank order
//
//	a := r.StartBroadcast(ctx, 0, data, client.Options{}) // several may be under way
//	b := r.StartBarrier(ctx, client.Options{})
//	res, err = a.Wait(ctx)
//
// Payloads go by shared memory: the agent makes a file, both sides map or copy it. Small ones
// travel inside the calls.
// An error that ended the group is a [*GroupError], the same at every rank.
//
// Place in the flow: outside the daemon, over the local API of package agent; what
// other languages bind to is that API itself (docs/api.md).
package client
