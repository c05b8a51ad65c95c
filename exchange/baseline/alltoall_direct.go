package baseline

import "github.com/gridagent/gridagent/exchange/plan"

// AlltoallSimple returns the alltoall of LAM/MPI: every rank posts all of its sends and
// receives at once, in rank order, and waits for all (Faraj & Yuan, IPDPS 2005, §6). So
// nothing waits for anything. The engine serves all destinations at once and the
// simulator divides ports evenly: to both only the order of the list tells this plan from
// [AlltoallSpreadingSimple], whereas a system that sends what is posted one after another
// sends everything to rank 0 first.
//
// The plan of this and the other alltoalls shares hosts and the matrix of sizes. The
// error says what is wrong with them.
func AlltoallSimple(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) {
	a, err := newAlltoall("simple", hosts, sizes)
	if err != nil {
		return nil, err
	}
	a.reserve(a.n * (a.n - 1))
	for src := range a.n {
		for dst := range a.n {
			if src != dst {
				a.send(src, dst, a.message(src, dst), nil, nil)
			}
		}
	}
	return a.plan, nil
}

// AlltoallSpreadingSimple returns the simple alltoall in another order: rank p posts its
// sends for p+1, p+2 …, modulo N, which is what MPICH does with messages of medium
// size (Faraj & Yuan, IPDPS 2005, §6). MPICH has since come to post them in batches; the
// loop that waits after each is package shuffle's Shift.
func AlltoallSpreadingSimple(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) {
	a, err := newAlltoall("spreading-simple", hosts, sizes)
	if err != nil {
		return nil, err
	}
	a.reserve(a.n * (a.n - 1))
	for i := 1; i < a.n; i++ {
		for p := range a.n {
			a.send(p, (p+i)%a.n, a.message(p, (p+i)%a.n), nil, nil)
		}
	}
	return a.plan, nil
}

// AlltoallPairwise returns the alltoall of MPICH for long messages (Faraj & Yuan, IPDPS
// 2005, §6): N−1 steps, each a blocking send-receive. Where N is a power of two, rank p
// exchanges with p XOR i in step i; else it sends to p+i and receives from p−i. Its name is
// "pairwise-mpich"; "pairwise" is the one of package shuffle, with pairs for every N.
func AlltoallPairwise(hosts []string, sizes plan.AlltoallSizes) (*plan.Plan, error) {
	a, err := newAlltoall("pairwise-mpich", hosts, sizes)
	if err != nil {
		return nil, err
	}
	a.reserve(a.n * (a.n - 1))
	for i := 1; i < a.n; i++ {
		for p := range a.n {
			dst := (p + i) % a.n
			if a.n&(a.n-1) == 0 {
				dst = p ^ i
			}
			a.step(p, dst, a.message(p, dst))
		}
		a.endIteration()
	}
	return a.plan, nil
}
