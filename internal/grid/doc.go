// Package grid runs whole grids of real agents in one process over an emulated network.
//
// [Start] makes one cluster with an agent on every host of a grid file: real
// memberlist, real quic-go, the real engine; only the packet connections come from
// internal/gridnet. It works in real time (the demo) and inside a testing/synctest
// bubble (the virtual-time grid tests), where minutes of WAN time pass in seconds.
//
// Place in the flow: above agent; used by internal/demo and by tests.
package grid
