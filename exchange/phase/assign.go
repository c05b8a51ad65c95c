package phase

// A message is one of the |M|·(|M|−1) of AAPC, with its phase. src and dst are ranks.
type message struct{ phase, src, dst int32 }

// An assignment gives every message its phase (§4.3, figure 4).
type assignment struct {
	*view
	messages []message

	// The machine of T_0 that sends, and the one that receives, a global message in each
	// phase: T_0 does both in every one. Indices in T_0.
	send0, recv0 []int
}

// assign runs the six steps and returns the messages by phase, in a phase by source.
// No machine sends twice in a phase, so the order is total.
func (v *view) assign() []message {
	n := v.prefix[len(v.trees)]
	a := &assignment{
		view:     v,
		messages: make([]message, 0, n*(n-1)),
		send0:    make([]int, v.phases),
		recv0:    make([]int, v.phases),
	}
	k := len(v.trees)
	for j := 1; j < k; j++ {
		a.fromLargest(j) // step 1
	}
	for i := 1; i < k; i++ {
		a.toLargest(i) // step 2
	}
	a.localLargest() // step 3
	for i := 2; i < k; i++ {
		for j := 1; j < i; j++ {
			a.broadcast(i, j) // step 4
		}
	}
	for i := 1; i < k; i++ {
		a.local(i) // step 5
	}
	for i := 1; i < k; i++ {
		for j := i + 1; j < k; j++ {
			a.broadcast(i, j) // step 6
		}
	}
	a.messages = sorted(a.messages, n, func(m message) int32 { return m.src })
	return sorted(a.messages, v.phases, func(m message) int32 { return m.phase })
}

// sorted returns messages in the order of a key below n, those of equal keys as they were.
// There are few keys and a million messages at 1000 machines, so it counts.
func sorted(messages []message, n int, key func(message) int32) []message {
	at := make([]int32, n+1) // where those of each key go
	for _, m := range messages {
		at[key(m)+1]++
	}
	for k := range n {
		at[k+1] += at[k]
	}
	out := make([]message, len(messages))
	for _, m := range messages {
		out[at[key(m)]] = m
		at[key(m)]++
	}
	return out
}

// put schedules the message from machine x of T_i to machine y of T_j at phase p.
func (a *assignment) put(p, i, x, j, y int) {
	a.messages = append(a.messages, message{int32(p), int32(a.trees[i][x]), int32(a.trees[j][y])})
}

// designated returns the machine of T_i, i ≥ 1, that receives a global message at phase
// p if any does, from T_0 or from a T_j with j > i. Counted from the end of the schedule,
// all machines of T_i take turns. p − phases is negative, hence mod.
func (a *assignment) designated(p, i int) int { return mod(p-a.phases, a.size(i)) }

// fromLargest is step 1 for T_0 → T_j: receivers take turns as designated, senders
// follow the rotate pattern. It starts at a multiple of |M_0|, so that in every round of
// |M_0| phases from phase 0 on each machine of T_0 sends once.
func (a *assignment) fromLargest(j int) {
	m0, mj, start := a.size(0), a.size(j), a.start(0, j)
	for q := range m0 * mj {
		p := start + q
		a.send0[p] = rotate(q, m0, mj)
		a.put(p, 0, a.send0[p], j, a.designated(p, j))
	}
}

// toLargest is step 2 for T_i → T_0: who receives follows from who sends in T_0 (table
// 3), and each machine of T_i sends for one whole round.
func (a *assignment) toLargest(i int) {
	m0, mi, start := a.size(0), a.size(i), a.start(i, 0)
	for q := range mi * m0 {
		p := start + q
		a.recv0[p] = partner(a.send0[p], p/m0, m0)
		a.put(p, i, q/m0, 0, a.recv0[p])
	}
}

// broadcast is step 4 for T_i → T_j, i > j ≥ 1, and step 6 where i < j. In step 4 the
// phases end a multiple of |M_j| before the last, so that receivers are those that are
// designated. In step 6, where either pattern is allowed, nothing depends on them.
func (a *assignment) broadcast(i, j int) {
	mi, mj, start := a.size(i), a.size(j), a.start(i, j)
	for q := range mi * mj {
		sender, receiver := broadcast(q, mj)
		a.put(start+q, i, sender, j, receiver)
	}
}
