// Package demo is the main job in one process: a grid of real agents over an emulated
// network joins, measures, forms its pool tree and runs the same allgather by several
// algorithms over the same links.
//
// Place in the flow: above internal/grid; the command demo prints what it returns.
package demo
