package main

// The switch trees of Faraj & Yuan (ICS 2005): 24 hosts on one switch, 32 on four, as a star and as a chain.
const (
	oneSwitch = "aapc-conf-a"
	star      = "aapc-conf-b"
	chain     = "aapc-conf-c"
)
