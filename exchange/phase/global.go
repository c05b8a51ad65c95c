package phase

// start returns the first of the |M_i|·|M_j| consecutive phases in which T_i → T_j is
// sent, i ≠ j (§4.2, extended ring scheduling). With subtrees of one machine each it is
// ring scheduling: phase j−i−1 where j > i, k−1−(i−j) where i > j (conference paper, table 1).
//
// The subtrees that T_i sends to follow one another in the order i+1, i+2, …, those
// before i aligned with the end. So no subtree sends, or receives, two global messages
// in one phase (lemma 2).
func (v *view) start(i, j int) int {
	if j > i {
		return v.size(i) * (v.prefix[j] - v.prefix[i+1])
	}
	return v.phases - v.size(j)*(v.prefix[i+1]-v.prefix[j+1])
}
