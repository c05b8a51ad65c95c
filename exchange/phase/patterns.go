package phase

// The two patterns that realise the m·n messages of T_i → T_j in as many phases (§4.3.1),
// for |M_i| = m and |M_j| = n. q counts the phases from the first one of T_i → T_j.

// broadcast: each sender in turn sends to every receiver, so that a sender keeps n
// consecutive phases (lemma 5).
func broadcast(q, n int) (sender, receiver int) { return q / n, q % n }

// rotate returns the sender at q where receivers follow a fixed sequence: senders follow
// theirs, too, and every lcm(m, n) phases, when the pairs would come again, it is rotated
// by one more. So any m phases from a multiple of m on have every sender once, any n
// phases every receiver (lemma 6).
//
// The paper searches for the smallest rotation whose first message is new. That is r in
// the r-th block of lcm(m, n) phases: sender and receiver meet at q and q′ only if
// q − q′ ≡ r′ − r modulo gcd(m, n), and r stays below gcd(m, n).
func rotate(q, m, n int) (sender int) {
	lcm := m / gcd(m, n) * n
	return (q + q/lcm) % m
}

// partner returns which machine of T_0 receives while sender sends (table 3): the one
// round+1 places behind it, so that over |M_0| rounds each has received while each has
// sent. In the last of them a machine receives while it sends.
func partner(sender, round, m0 int) int { return (sender + round + 1) % m0 }

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// mod is the mathematical modulo, 0 ≤ mod < n: Go's % of a negative number is not positive.
func mod(a, n int) int { return (a%n + n) % n }
