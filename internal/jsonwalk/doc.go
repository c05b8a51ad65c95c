// Package jsonwalk reads the JSON files of this module in one pass and knows the line of
// every value: whatever is wrong is an [Error] with file, line and reason, and what it
// quotes of the file is short and holds no control characters.
//
// encoding/json alone cannot serve for files that people write or break. It keeps no place
// for a value, fills absent fields with zero (a transfer without "src" would come from
// host 0), takes the last of two equal keys, forgets the order of an object's keys (the
// rank order of a switch tree) and names Go types in its errors.
//
// Place in the flow: under the readers of matrix files (probe/netmap), pool trees (pools),
// plans and switch trees (exchange/plan). It is pure and imports the standard library only.
package jsonwalk
