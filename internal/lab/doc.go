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
// So the wide-area links are the same code as the emulator's, and netem is not needed. What the kernel
// does it does at its own speed: the latency within a site is that of two veths and a bridge,
// some 0.05 ms, whatever the file says. Rates are of IP bytes, as in the emulator; tbf counts
// Ethernet frames, so its rate is 1514/1500 of the file's, exact for full packets.
//
// One process, the supervisor ([Serve]), holds all namespaces by open files and nothing else
// does: they have no names, no mounts, and no trace in the namespaces of the machine. When it
// ends, however it ends, the kernel takes down what no process uses any more; [Down]
// ends the processes that are left in the hosts. Others reach it through a Unix socket
// ([Dial]) and enter a host through its open files ([Enter]).
//
// Linux only. It needs root, or an unprivileged user namespace and a /dev/net/tun that all may open.
//
// Place in the flow: beside it, under cmd; it drives internal/gridnet and nothing imports it but
// cmd and the peers' benchmark.
package lab
