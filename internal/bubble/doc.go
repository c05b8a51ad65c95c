// Package bubble lets a command measure in virtual time: synctest bubbles exist in test binaries only.
//
// [Run] builds the tests of the command's package and runs one of them with a list of jobs; that test calls
// [Serve], which hands each job to a function and sends what comes of it back, a line of JSON each, as soon as
// it is there. Jobs that are missing at the end were interrupted, or have ended the binary.
//
// Place in the flow: beside it; the commands under internal that measure import it.
package bubble
