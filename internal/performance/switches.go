package main

// The switch trees of Faraj & Yuan (ICS 2005): 24 hosts on one switch, 32 on four, as a star and as a chain.
const (
	oneSwitch = "aapc-conf-a"
	star      = "aapc-conf-b"
	chain     = "aapc-conf-c"
)

// gigabit behind the name of a tree says that its links have 1 Gbit/s, and not what its file says.
const gigabit = "-1Gbps"

// deepHosts behind the name of a tree says that hosts have gridnet's own queue, and not [hostQueue].
const deepHosts = "-128KiB-hosts"

// hostQueue is how many bytes wait in a host's own port, 6 packets: about what the driver of a network card holds.
const hostQueue = 8000

// thinned behind the name of a grid says that only every other host has a rank.
const thinned = "-half"
