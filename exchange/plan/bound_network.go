package plan

import (
	"fmt"

	"github.com/gridagent/gridagent/probe/netmap"
)

// AllgatherBound returns the bound of an allgather over n in which host i contributes
// sizes[i] bytes: that of [AllgatherBound], and over every trunk the bytes that start
// before it over its rate, since each of them must get behind it once at least.
func (n *Network) AllgatherBound(sizes []int64) (Bound, error) {
	if err := n.check(n.Hosts); err != nil {
		return Bound{}, fmt.Errorf("allgather bound: %w", err)
	}
	if len(sizes) != len(n.Pool) {
		return Bound{}, fmt.Errorf("allgather bound: %d sizes for %d hosts", len(sizes), len(n.Pool))
	}
	pools := n.Pools()
	in := BoundInput{Bytes: make([]int64, pools), Capacity: make([][]netmap.BytesPerSec, pools)}
	var total int64
	for h, size := range sizes {
		if size < 0 || size > maxBytes {
			return Bound{}, fmt.Errorf("allgather bound: size %d of host %d is not in 0…%d", size, h, int64(maxBytes))
		}
		in.Bytes[n.Pool[h]] += size
		total += size
	}
	for a := range pools {
		in.Capacity[a] = n.Pipe[a*pools : (a+1)*pools]
	}
	for h, size := range sizes {
		in.Hosts = append(in.Hosts, HostPortInput{Incoming: total - size, Port: n.Ingress[h]})
	}
	best, err := AllgatherBound(in)
	if err != nil {
		return Bound{}, err
	}
	for k := range n.Trunks {
		t := &n.Trunks[k]
		bytes := total
		for _, h := range t.Behind {
			bytes -= sizes[h]
		}
		if err := best.take(Bound{Trunk: t, Host: -1, Bytes: bytes, Rate: t.Rate}); err != nil {
			return Bound{}, fmt.Errorf("allgather bound: %w", err)
		}
	}
	return best, nil
}

// SnapshotBound returns the bound of an allgather over the hosts of s, partitioned
// into pools, in which host i contributes sizes[i] bytes. The capacities are those of [NetworkOf].
func SnapshotBound(s *netmap.Snapshot, pools [][]int, sizes []int64) (Bound, error) {
	n, err := NetworkOf(s, pools, 1)
	if err != nil {
		return Bound{}, fmt.Errorf("allgather bound: %w", err)
	}
	return n.AllgatherBound(sizes)
}

// maxCutPools is the largest number of pools whose every subset [Network.AlltoallBound]
// looks at: 2^16 subsets of 16 pools take some milliseconds.
const maxCutPools = 16

// AlltoallBound returns the largest of
//
//   - over every set X of pools: the bytes that start outside X and end inside over
//     the sum of the capacities into X;
//   - over every host: the bytes that it must send, and those that it must receive,
//     over the rate of its port;
//   - over every trunk: the bytes that must cross it over its rate. On a switch tree
//     with links of one rate this is the peak throughput of Faraj, Yuan & Patarasuk, §2.
//
// It holds for every schedule, with and without relays. Among more than 16 pools only
// sets of one pool and of all but one are looked at: the general case is a sparsest
// cut, which no fast algorithm finds. Latency is left out. It returns
// [ErrUnreachable], wrapped, where bytes cannot get to where they must.
func (n *Network) AlltoallBound(sizes AlltoallSizes) (Bound, error) {
	best, err := n.alltoallBound(sizes)
	if err != nil {
		return Bound{}, fmt.Errorf("alltoall bound: %w", err)
	}
	return best, nil
}

func (n *Network) alltoallBound(sizes AlltoallSizes) (Bound, error) {
	best, between, err := n.portBound(sizes)
	if err == nil {
		err = n.cuts(between, &best)
	}
	return best, err
}

// portBound returns the bound of the hosts' ports and of trunks, which no way between pools
// gets around, and P×P the bytes from pool to pool.
func (n *Network) portBound(sizes AlltoallSizes) (best Bound, between []int64, err error) {
	if err := n.check(n.Hosts); err != nil {
		return Bound{}, nil, err
	}
	if _, err := NewAlltoall("bound", n.Hosts, sizes); err != nil {
		return Bound{}, nil, err
	}
	best = Bound{Host: -1}
	hosts, pools := len(n.Hosts), n.Pools()
	between = make([]int64, pools*pools)
	for h := range hosts {
		var out, in int64
		for k := range hosts {
			if k == h {
				continue
			}
			out += sizes.Of(h, k)
			in += sizes.Of(k, h)
			between[n.Pool[h]*pools+n.Pool[k]] += sizes.Of(h, k)
		}
		if out > maxTotal/maxHosts || in > maxTotal/maxHosts {
			return Bound{}, nil, fmt.Errorf("host %s sends %d and receives %d bytes, more than %d", n.Hosts[h], out, in, int64(maxTotal/maxHosts))
		}
		if err := best.take(Bound{Host: h, Out: true, Bytes: out, Rate: n.Egress[h]}); err != nil {
			return Bound{}, nil, err
		}
		if err := best.take(Bound{Host: h, Bytes: in, Rate: n.Ingress[h]}); err != nil {
			return Bound{}, nil, err
		}
	}
	for k := range n.Trunks {
		t := &n.Trunks[k]
		var bytes int64
		for _, dest := range t.Behind {
			for origin := range hosts {
				if t.crossed(origin, dest) {
					bytes += sizes.Of(origin, dest)
				}
			}
		}
		if err := best.take(Bound{Trunk: t, Host: -1, Bytes: bytes, Rate: t.Rate}); err != nil {
			return Bound{}, nil, err
		}
	}
	return best, between, nil
}

// cuts makes the sets of pools bind best; between is P×P, bytes from pool to pool.
func (n *Network) cuts(between []int64, best *Bound) error {
	pools := n.Pools()
	if pools <= maxCutPools {
		c := cutter{network: n, between: between, pools: pools, best: best}
		return c.split(pools-1, 0, 0, 0)
	}
	for one := range pools {
		if err := n.cut(between, pools, func(p int) bool { return p == one }, best); err != nil {
			return err
		}
		if err := n.cut(between, pools, func(p int) bool { return p != one }, best); err != nil {
			return err
		}
	}
	return nil
}

// A cutter looks at every set of pools, in the order of the sets as binary numbers. Sums grow as pools are put in or left out, so that a set costs
// as many additions as there are pools: by themselves those of 16 pools took 40 ms.
type cutter struct {
	network *Network
	between []int64
	pools   int
	best    *Bound
}

// split puts pool p in or leaves it out, and all before it. Of those behind it set has the ones that are in; bytes and rate are what goes into it from the others.
func (c *cutter) split(p int, set uint64, bytes float64, rate netmap.BytesPerSec) error {
	if p < 0 {
		// What may be as good is added up anew: the sums of [Network.cut] do not hang on the way here.
		if set == 0 || set == 1<<c.pools-1 || rate > 0 && bytes/float64(rate) < c.best.Seconds*(1-1e-9) {
			return nil
		}
		return c.network.cut(c.between, c.pools, func(p int) bool { return set>>p&1 == 1 }, c.best)
	}
	bytesIn, rateIn := bytes, rate
	for q := p + 1; q < c.pools; q++ {
		if set>>q&1 == 1 {
			bytes += float64(c.between[p*c.pools+q])
			rate += c.network.Pipe[p*c.pools+q]
		} else {
			bytesIn += float64(c.between[q*c.pools+p])
			rateIn += c.network.Pipe[q*c.pools+p]
		}
	}
	if err := c.split(p-1, set, bytes, rate); err != nil {
		return err
	}
	return c.split(p-1, set|1<<p, bytesIn, rateIn)
}

// cut makes the set of the pools for which inside is true bind best.
func (n *Network) cut(between []int64, pools int, inside func(int) bool, best *Bound) error {
	var bytes int64
	var rate netmap.BytesPerSec
	for a := range pools {
		if inside(a) {
			continue
		}
		for b := range pools {
			if inside(b) {
				bytes += between[a*pools+b]
				rate += n.Pipe[a*pools+b]
			}
		}
	}
	if rate > 0 && float64(bytes)/float64(rate) <= best.Seconds {
		return nil // without the list of its pools
	}
	var set []int
	for p := range pools {
		if inside(p) {
			set = append(set, p)
		}
	}
	return best.take(Bound{Set: set, Host: -1, Bytes: bytes, Rate: rate})
}
