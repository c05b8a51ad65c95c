// Package gridfile reads grid files: what a network is declared to be.
//
// A grid file has two forms (docs/formats.md). The human form, YAML or JSON, lists sites
// with their local network and the directed wide-area links between them; the emulator,
// the demo and the simulator read it. The matrix form, JSON, is what `gridagent map -o
// json` prints of a live grid: N×N matrices over hosts. [Parse] tells them apart.
//
// The package also holds the quantities with units that files and flags share: rates
// ("1.44Mbps"), sizes ("64KiB"), shares ("0.1%") and durations ("50ms").
//
// Place in the flow: the other source of a [netmap.Snapshot] beside the probes; pools, the
// schedulers and internal/gridnet read what it returns.
package gridfile
