package group

// Hosts returns the hosts of the groups with ranks on this host, each once, in no order.
func (g *Groups) Hosts() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := make(map[string]bool)
	var hosts []string
	for _, m := range g.members {
		for _, h := range m.hosts {
			if !seen[h] {
				seen[h] = true
				hosts = append(hosts, h)
			}
		}
	}
	return hosts
}
