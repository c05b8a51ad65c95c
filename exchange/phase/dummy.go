package phase

import (
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Dummy communications (§5). Without synchronisation a machine that is idle in a phase
// would run ahead of the others. So that all are busy in all phases, one that does not
// send sends a dummy to another one on its switch that does not receive, or, where there is none,
// to itself.
//
// A plan has no such transfer: one carries a block, and no block travels twice. What
// a dummy does can be said without it. Machine v, which receives the dummy of u in phase q,
// goes on to the phases after q when it has it, and u, which runs phase after phase
// too, sends it when its messages of the phases before q have left. So the first message of v after
// phase q comes after the last message of u before phase q. A dummy to itself
// says nothing new. In After of a message are therefore
//
//   - the message that its source sent before, and
//   - for every machine whose dummy its source got from then on, the last message
//     of that machine before the dummy,
//
// less what is redundant. This keeps pace between machines of one switch and
// orders little else: it is not a guarantee against contention, nor is the paper's.
// A machine without messages of its own between two dummies does not hand on what it
// waited for.
func dummies(t *plan.Topology, messages []message) (edges, error) {
	hosts := len(t.Hosts())
	d := &dummy{
		reducer: newReducer(hosts, messages, 1, Dummy),
		on:      make([][]int32, len(t.Switches())),
		last:    make([]int32, hosts),
		sent:    make([]bool, hosts),
		got:     make([]bool, hosts),
		waits:   make([][]int32, hosts),
	}
	for h := range d.last {
		d.last[h] = -1
		d.on[t.Home(h)] = append(d.on[t.Home(h)], int32(h))
	}
	for i := 0; i < len(messages); {
		end := i
		for end < len(messages) && messages[end].phase == messages[i].phase {
			end++
		}
		if err := d.phase(i, end); err != nil {
			return edges{}, err
		}
		i = end
	}
	return d.out, nil
}

type dummy struct {
	*reducer
	on        [][]int32 // by switch: its machines
	last      []int32   // by machine: its last message before this phase, -1 before the first
	sent, got []bool    // by machine: in this phase
	waits     [][]int32 // by machine: what its next message comes after, through dummies
	idle      []int32   // scratch of meet: who receives nothing yet
}

// phase adds messages i…end-1, those of one phase, and sends its dummies. Every phase has messages.
func (d *dummy) phase(i, end int) error {
	clear(d.sent)
	clear(d.got)
	for k := i; k < end; k++ {
		m := d.messages[k]
		d.sent[m.src], d.got[m.dst] = true, true
		if d.last[m.src] >= 0 {
			d.waits[m.src] = append(d.waits[m.src], d.last[m.src])
			d.retain(d.last[m.src])
		}
		if err := d.add(int32(k), d.waits[m.src]); err != nil {
			return err
		}
		for _, a := range d.waits[m.src] {
			d.release(a)
		}
		d.waits[m.src] = d.waits[m.src][:0]
	}
	for _, hosts := range d.on {
		d.meet(hosts)
	}
	for k := i; k < end; k++ {
		d.retain(int32(k))
		src := d.messages[k].src
		if d.last[src] >= 0 {
			d.release(d.last[src])
		}
		d.last[src] = int32(k)
	}
	return nil
}

// meet sends the dummies among hosts, the machines of one switch: in rank order, each that
// does not send takes the first other one that receives nothing yet. One that finds none
// talks to itself, which says nothing, so that a later one may still take it.
func (d *dummy) meet(hosts []int32) {
	d.idle = d.idle[:0]
	for _, h := range hosts {
		if !d.got[h] {
			d.idle = append(d.idle, h)
		}
	}
	idle := d.idle
	for _, u := range hosts {
		switch {
		case d.sent[u] || len(idle) == 0:
		case idle[0] != u:
			d.send(u, idle[0])
			idle = idle[1:]
		case len(idle) > 1:
			d.send(u, idle[1])
			idle[1] = u // it was first and stays first
			idle = idle[1:]
		}
	}
}

// send is the dummy from u to v: it replaces what an earlier one made v wait for.
func (d *dummy) send(u, v int32) {
	news := d.last[u]
	if news < 0 {
		return
	}
	d.retain(news)
	at := slices.IndexFunc(d.waits[v], func(a int32) bool { return d.messages[a].src == u })
	if at < 0 {
		d.waits[v] = append(d.waits[v], news)
		return
	}
	d.release(d.waits[v][at])
	d.waits[v][at] = news
}
