// Package configs holds the grid files that come with gridagent, so that the demo runs
// from the binary alone.
//
// Place in the flow: data beside it; the command demo reads it.
package configs

import _ "embed"

// Paper3Site is grids/paper-3site.yaml: the 3-site grid of Gupta & Vadhiyar (HPDC 2007,
// Tables 1 and 2).
//
//go:embed grids/paper-3site.yaml
var Paper3Site []byte
