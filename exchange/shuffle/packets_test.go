package shuffle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A sent packet has the instant at which it is its source's turn to send it, in gaps g
// from the start of the round, the host that it goes to, and its number in its message.
type sent struct{ instant, to, number int }

// program is what one host does in one round, packets in the order of sending.
type program []sent

// The three algorithms of the paper as loops over packets, for messages of k packets.
// An instant at which a host has no partner stays empty.

func shiftProgram(p, k, id int) []program {
	var out []program
	for i := 1; i < p; i++ {
		var round program
		for s := range k {
			round = append(round, sent{s, (id + i) % p, s})
		}
		out = append(out, round)
	}
	return out
}

func synchronousProgram(p, k, id int) []program {
	var round program
	for s := range k {
		for i := 1; i < p; i++ {
			round = append(round, sent{s*(p-1) + i - 1, (id + i) % p, s})
		}
	}
	return []program{round}
}

func groupProgram(p, k, id, fanout int) []program {
	last := chromatic(p)
	var out []program
	for first := 1; first <= last; first += fanout {
		width := min(fanout, last-first+1)
		var round program
		for s := range k {
			for j := range width {
				if to := partner(first+j, id, p); to != idle {
					round = append(round, sent{s*width + j, to, s})
				}
			}
		}
		out = append(out, round)
	}
	return out
}

// A scheme is an algorithm as packets and as a plan.
type scheme struct {
	algorithm
	program func(p, k, id int) []program
}

func schemes(fanout int) []scheme {
	all := algorithms(fanout)
	return []scheme{
		{all[0], shiftProgram},
		{all[1], func(p, k, id int) []program { return groupProgram(p, k, id, 1) }},
		{all[2], synchronousProgram},
		{all[3], func(p, k, id int) []program { return groupProgram(p, k, id, fanout) }},
	}
}

// TestPackets runs the schemes in lock step, as the paper argues (§3.1 to §3.4), and checks its
// claims: at no instant do two packets go to one host, a round has at most fan-out
// flows into a host and out of it, partners never come again, everything arrives
// once, and the instants are as many as the formulas count gaps. Then it checks
// that the plan says the same: rounds are those of After, slots those of Phase.
func TestPackets(t *testing.T) {
	for p := 2; p <= 33; p++ {
		for _, k := range []int{1, 3} {
			for _, fanout := range []int{2, 5, p} {
				for _, s := range schemes(fanout) {
					where := fmt.Sprintf("%s p=%d k=%d fan-out %d", s.name, p, k, fanout)
					made, err := s.make(names(p), plan.AlltoallSizes{Uniform: int64(k) * packet})
					if err != nil {
						t.Fatal(err)
					}
					checkPackets(t, where, s, made, p, k)
				}
			}
		}
	}
}

func checkPackets(t *testing.T, where string, s scheme, made *plan.Plan, p, k int) {
	t.Helper()
	programs := make([][]program, p)
	for id := range p {
		programs[id] = s.program(p, k, id)
	}
	slot := make(map[plan.Block]int, len(made.Transfers))
	for _, tr := range made.Transfers {
		slot[tr.Blocks[0]] = tr.Phase
	}
	round := make(map[plan.Block]int, p*p) // in which a message is sent
	packets, instants, slots := 0, 0, 0
	for r := range programs[0] {
		arrives := make(map[[2]int]int) // instant and host -> from
		in, length := make([]map[int]bool, p), 0
		for h := range in {
			in[h] = make(map[int]bool)
		}
		for id := range p {
			out := make(map[int]int) // to -> packets
			for _, x := range programs[id][r] {
				at := [2]int{x.instant, x.to}
				if from, taken := arrives[at]; taken {
					t.Fatalf("%s round %d: packets from %d and %d go to %d at instant %d", where, r, from, id, x.to, x.instant)
				}
				arrives[at] = id
				b := plan.Block{Origin: id, Dest: x.to}
				if before, ok := round[b]; ok && before != r || x.number != out[x.to] {
					t.Fatalf("%s: packet %d from %d to %d in round %d, its message was begun in %d with %d packets", where, x.number, id, x.to, r, before, out[x.to])
				}
				round[b] = r
				out[x.to]++
				in[x.to][id] = true
				length = max(length, x.instant+1)
				packets++
				if want, ok := slot[b]; !ok || x.instant != x.number*slotsOfRound(s, p, r)+want-slots {
					t.Fatalf("%s round %d: packet %d from %d to %d at instant %d, the plan has slot %d", where, r, x.number, id, x.to, x.instant, want)
				}
			}
			if len(out) > s.fanout(p) {
				t.Fatalf("%s round %d: %d sends to %d hosts", where, r, id, len(out))
			}
			for to, n := range out {
				if n != k {
					t.Fatalf("%s round %d: %d of %d packets from %d to %d", where, r, n, k, id, to)
				}
			}
		}
		for h := range in {
			if len(in[h]) > s.fanout(p) {
				t.Fatalf("%s round %d: %d hosts send to %d", where, r, len(in[h]), h)
			}
		}
		instants += length
		slots += slotsOfRound(s, p, r)
	}
	if packets != k*p*(p-1) {
		t.Fatalf("%s: %d packets, want %d", where, packets, k*p*(p-1))
	}
	if want := k * s.slots(p); instants != want {
		t.Errorf("%s: %d instants, the formulas count %d gaps", where, instants, want)
	}
	checkWaits(t, where, made, round)
}

// slotsOfRound returns how many slots round r has.
func slotsOfRound(s scheme, p, r int) int { return min(s.fanout(p), s.slots(p)-r*s.fanout(p)) }

// checkWaits: a transfer comes after those transfers of its source, sent and received,
// that belong to the last round before its own in which the source took part.
func checkWaits(t *testing.T, where string, made *plan.Plan, round map[plan.Block]int) {
	t.Helper()
	does := make(map[[2]int][]int) // host and round -> transfers
	for i, tr := range made.Transfers {
		r := round[tr.Blocks[0]]
		does[[2]int{tr.Src, r}] = append(does[[2]int{tr.Src, r}], i)
		does[[2]int{tr.Dst, r}] = append(does[[2]int{tr.Dst, r}], i)
	}
	for i, tr := range made.Transfers {
		r := round[tr.Blocks[0]] - 1
		for r > 0 && does[[2]int{tr.Src, r}] == nil {
			r--
		}
		if want := does[[2]int{tr.Src, r}]; !slices.Equal(tr.After, want) {
			t.Fatalf("%s: transfer %d is after %v, its source did %v in the round before", where, i, tr.After, want)
		}
	}
}

// TestDrift runs the packets of one round of hosts that start up to some gaps apart
// through a switch whose ports out pass one packet a gap. It is why the paper has group
// shuffle (§3.4): with drift slots collide, and the queue that builds up at a port
// has as many packets at most as a round has partners for it, whatever the number of hosts.
func TestDrift(t *testing.T) {
	const p, k = 16, 40
	longest := func(s scheme, seed uint64) int {
		rng := rand.New(rand.NewPCG(seed, 4))
		arrive := make([]map[int]int, p) // per host: packets by instant
		for h := range arrive {
			arrive[h] = make(map[int]int)
		}
		for id := range p {
			drift := rng.IntN(p)
			for _, x := range s.program(p, k, id)[0] {
				arrive[x.to][x.instant+drift]++
			}
		}
		queue := 0
		for h := range p {
			waiting := 0
			for instant := range p*k + 2*p {
				waiting += arrive[h][instant]
				queue = max(queue, waiting)
				waiting = max(0, waiting-1)
			}
		}
		return queue
	}
	sum := make(map[string]int)
	for seed := range uint64(50) {
		for _, s := range schemes(5) {
			got := longest(s, seed)
			sum[s.name] += got
			if (s.name == "shift" || s.name == "pairwise") && got != 1 {
				t.Errorf("seed %d: %s: %d packets wait at a port in the first round", seed, s.name, got)
			}
			if got > s.fanout(p) {
				t.Errorf("seed %d: %s: %d packets wait at a port, its partners are %d", seed, s.name, got, s.fanout(p))
			}
		}
	}
	if sum["group-shuffle"] >= sum["sync-shuffle"] || sum["group-shuffle"] <= 50 {
		t.Errorf("sums of longest queues %v: want group shuffle between pairwise and synchronous shuffle", sum)
	}
	t.Logf("sums of longest queues over 50 seeds: %v", sum)
}
