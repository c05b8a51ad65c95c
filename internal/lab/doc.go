// Package lab makes a grid of real hosts on one Linux machine: its one job is that
// programs which know nothing of gridagent, MPI libraries among them, run over the links of a grid
// file or a switch-tree file as if each host were a machine of its own.
//
// A host is a network namespace with one interface, eth0. A packet takes this way:
//
//	eth0 of the sender          port rate and queue by tbf
//	bridge of the site/switch   in the fabric, a namespace of the lab's own
//	  other switch: veth        trunk rate and queue by tbf, one in each direction
//	  other site:   TAP → [gridnet.Network] in this process → TAP
//	                            rate, ceiling per flow, queue, loss, latency, jitter
//	port of the receiver        port rate and queue by tbf
//
// So the wide-area links are the same code as the emulator's, and netem is not needed. One goroutine carries
// all packets between TAPs and emulator, in turns, since what costs is threads that wake. What the kernel
// does it does at its own speed: the latency within a site is that of two veths and a bridge,
// some 0.05 ms, whatever the file says. Rates are of IP bytes, as in the emulator; tbf counts
// Ethernet frames, so its rate is 1514/1500 of the file's, exact for full packets and 4 % low for
// those of 250 bytes.
//
// tbf differs from a wire, and from the emulator, in two ways. A packet that finds a port idle goes on at
// once, and the next one waits for as long as it would have taken: a message is early by the time of
// one packet at each port and trunk. And its bucket holds 0.25 ms of the rate beside one packet, for
// timers that are late: above 40 Mbit/s the first packets of a train, 3 at 100 Mbit/s and 21 at 1 Gbit/s,
// pass back to back. A probe that looks at more packets than that sees the rate. Queues before
// tbf are in bytes, so many full packets.
//
// Nobody asks for hardware addresses: they follow from the IP addresses, and hosts and bridges know
// them all. An ARP request behind a full port would be seconds late.
//
// One process, the supervisor ([Serve]), holds all namespaces by open files and nothing else
// does: they have no names, no mounts, and no trace in the namespaces of the machine. When it
// ends, however it ends, the kernel takes down what no process uses any more. [Down] ends the processes
// that are left in the hosts. It knows them by a mark, the lab's ID: in their environment, which children
// inherit, or on the loopback of the host that they are in, which outlives eth0. The numbers of
// namespaces alone are not enough: the kernel gives them again.
//
// Others reach the supervisor through a Unix socket ([Dial]) and enter a host through its open files
// ([Exec]). The folder of a lab, with the socket in it, is open to its user alone. Within the
// lab there is no such line: a program in a host has the machine's files and the rights of
// who started it.
//
// Linux only. It needs root, or an unprivileged user namespace; for links between sites also a
// /dev/net/tun that the user may open.
//
// Place in the flow: beside it, under cmd; it drives internal/gridnet and nothing imports it but
// cmd and the peers' benchmark.
package lab
