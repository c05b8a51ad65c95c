package phase

// Local messages. A tree has no link that lies both on a path to a machine and on one
// from it (lemma 3). So a local message u → v of T_i meets no global message in a phase
// in which (table 2)
//
//	(1) v sends and u receives a global message,
//	(2) v sends one and no machine of T_i receives any,
//	(3) u receives one and no machine of T_i sends any, or
//	(4) no machine of T_i sends or receives any;
//
// and with at most one local message of a subtree in a phase they do not meet each
// other. Step 3 uses case 1, step 5 cases 1 and 2; no message needs the others.

// localLargest is step 3: in each of the first |M_0|−1 rounds each machine of T_0 sends
// once, and receives from the outside while another one sends. Together these rounds, phases 0 to
// |M_0|·(|M_0|−1) − 1, have every pair once. (Figure 4 names the phase after the last.)
func (a *assignment) localLargest() {
	m0 := a.size(0)
	for p := range m0 * (m0 - 1) {
		a.put(p, 0, a.recv0[p], 0, a.send0[p])
	}
}

// local is step 5: the local messages of T_i, i ≥ 1, in the phases of T_i → T_{i−1},
// which are the last |M_i|·|M_{i−1}|. There each machine of T_i sends for |M_{i−1}| ≥
// |M_i| consecutive phases, in which every machine of T_i is designated at least once:
// it receives, or none does, since no T_j → T_i with 1 ≤ j < i comes so late.
func (a *assignment) local(i int) {
	mi, n, start := a.size(i), a.size(i-1), a.start(i, i-1)
	for v := range mi {
		for q := range mi { // the first |M_i| of v's phases have every machine once
			p := start + v*n + q
			if u := a.designated(p, i); u != v {
				a.put(p, i, u, i, v)
			}
		}
	}
}
