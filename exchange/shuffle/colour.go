package shuffle

// idle is the partner of a host that has none in a round.
const idle = -1

// colours returns χ′, how many rounds of disjoint pairs p hosts need to meet each
// other: p−1 for even p, p for odd p, in which one host idles in each round. A host
// alone needs none.
func colours(p int) int {
	switch {
	case p < 2:
		return 0
	case p%2 == 0:
		return p - 1
	}
	return p
}

// partner returns whom host id of p ≥ 2 meets in round 1 … χ′, or idle: the procedure
// EdgeColor of Tam & Wang, figure 1, after Gross & Yellen.
//
// Two hosts below χ′ meet in the round that their sum leaves modulo χ′, which is odd.
// So in each round there is one host whose double leaves that: it idles, or with even p
// meets the host χ′, which takes no part in the sums.
func partner(round, id, p int) int {
	c := colours(p)
	if id == c {
		if round%2 == 1 {
			round += c
		}
		return round / 2 % c
	}
	switch v := (round + c - id) % c; {
	case v != id:
		return v
	case p%2 == 0:
		return c
	}
	return idle
}
