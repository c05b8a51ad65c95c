package mpic

import (
	"bufio"
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
)

// writeTables writes the schedule. Errors of w stay with w until it is flushed.
func (f *file) writeTables(w *bufio.Writer) {
	fmt.Fprintf(w, "static const struct message messages[MESSAGES + 1] = {\n\t/* from, to, tag, needs, blocks, releases */\n")
	blocks, releases, phase, round := 0, 0, -1, 0
	for i := range f.messages {
		m := &f.messages[i]
		if f.Rounds > 1 && i == f.rounds[round] {
			fmt.Fprintf(w, "\t/* ---- round %d ---- */\n", round)
			round++
		}
		if m.phase != phase {
			phase = m.phase
			if phase >= 0 {
				fmt.Fprintf(w, "\t/* phase %d */\n", phase)
			} else {
				fmt.Fprintf(w, "\t/* without phase */\n")
			}
		}
		fmt.Fprintf(w, "\t{%d, %d, %d, %d, %d, %d},", m.from, m.to, m.tag, m.needs, blocks, releases)
		if len(m.blocks) == 0 {
			w.WriteString(" /* notice */")
		}
		w.WriteByte('\n')
		blocks += len(m.blocks)
		releases += len(m.releases)
	}
	fmt.Fprintf(w, "\t{-1, -1, 0, 0, %d, %d} /* the end */\n};\n\n", blocks, releases)

	if f.Allgather {
		w.WriteString("/* The blocks of all messages, by the rank that they come from. */\nstatic const int blocks[] = {")
	} else {
		w.WriteString("/* The blocks of all messages. */\nstatic const struct block blocks[] = {")
	}
	l := list{w: w}
	for i := range f.messages {
		for _, b := range f.messages[i].blocks {
			l.add(f.block(b))
		}
	}
	l.end(f.block(plan.Block{Origin: -1, Dest: -1}))

	w.WriteString("/* Messages that come after another one, which releases them when it is complete. */\nstatic const int releases[] = {")
	l = list{w: w}
	for i := range f.messages {
		for _, r := range f.messages[i].releases {
			l.add(fmt.Sprint(r))
		}
	}
	l.end("-1")

	w.WriteString("/* Where each round begins in messages. */\nstatic const int rounds[ROUNDS + 1] = {")
	l = list{w: w}
	for _, r := range f.rounds[:f.Rounds] {
		l.add(fmt.Sprint(r))
	}
	l.end("MESSAGES")
}

// block is b as an element of blocks.
func (f *file) block(b plan.Block) string {
	if f.Allgather {
		return fmt.Sprint(b.Origin)
	}
	return fmt.Sprintf("{%d, %d}", b.Origin, b.Dest)
}

// A list writes the elements of a C array in lines of up to 96 characters.
type list struct {
	w    *bufio.Writer
	used int // characters in this line, 0 before the first element
}

func (l *list) add(element string) {
	switch {
	case l.used == 0 || l.used+2+len(element) > 96:
		l.w.WriteString("\n\t")
		l.used = 8
	default:
		l.w.WriteByte(' ')
		l.used++
	}
	l.w.WriteString(element)
	l.w.WriteByte(',')
	l.used += len(element) + 1
}

// end adds a last element, because C has no empty arrays, and closes the array.
func (l *list) end(element string) {
	l.add(element)
	l.w.WriteString("\n};\n\n")
}
