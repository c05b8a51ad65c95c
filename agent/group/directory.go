package group

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
)

// ID names one formed group; it is random, so a job's name can be used again.
type ID [16]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText implements [encoding.TextMarshaler].
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *ID) UnmarshalText(b []byte) error {
	if hex.DecodedLen(len(b)) != len(id) {
		return fmt.Errorf("group id %q is not 32 hexadecimal digits", b)
	}
	_, err := hex.Decode(id[:], b)
	return err
}

// Limits on what the directory keeps for others.
const (
	maxJobs  = 4096
	maxRanks = 1 << 16
)

// directoryHost returns who brings the ranks of job together: the member with the
// highest hash of job and name (rendezvous hashing), so that agents with the same
// view agree without asking and jobs spread over the hosts.
func directoryHost(job string, members []string) string {
	var best string
	var bestWeight uint64
	for _, name := range members {
		sum := sha256.Sum256([]byte(job + "\x00" + name))
		if w := binary.BigEndian.Uint64(sum[:8]); best == "" || w > bestWeight || w == bestWeight && name < best {
			best, bestWeight = name, w
		}
	}
	return best
}

// A directory brings together the ranks of the jobs that hash to this host. A
// registration lives as long as its stream: a rank that gives up, or whose host
// dies, is withdrawn and the others go on waiting.
type directory struct {
	mu   sync.Mutex // guards jobs; nothing blocks while it is held
	jobs map[string]*forming
}

type forming struct {
	ranks int
	regs  map[int]*registration
}

type registration struct {
	host string
	rank int
	out  chan message // waiting (dropped when full), then one formed or refused
}

// register enters a rank. The returned registration's channel brings the answer.
func (d *directory) register(job, host string, rank, ranks int) (*registration, *Failure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.jobs[job]
	if f == nil {
		if len(d.jobs) >= maxJobs {
			return nil, &Failure{Kind: Internal, Rank: -1, Cause: fmt.Sprintf("%d jobs are forming already", maxJobs)}
		}
		f = &forming{ranks: ranks, regs: make(map[int]*registration)}
		d.jobs[job] = f
	}
	if f.ranks != ranks {
		bad := &Failure{Kind: Mismatch, Rank: rank, Host: host, Cause: fmt.Sprintf(
			"rank %d on %s says the job has %d ranks, %s", rank, host, ranks, f.claims())}
		for _, r := range f.regs {
			r.out <- message{Kind: kindRefused, Failure: bad} // the last message: room is kept for it
		}
		delete(d.jobs, job)
		return nil, bad
	}
	if old := f.regs[rank]; old != nil {
		return nil, &Failure{Kind: Mismatch, Rank: rank, Host: host, Cause: fmt.Sprintf(
			"rank %d on %s: the rank is taken by host %s", rank, host, old.host)}
	}
	reg := &registration{host: host, rank: rank, out: make(chan message, 4)}
	f.regs[rank] = reg
	if len(f.regs) < ranks {
		f.tell(message{Kind: kindWaiting, Ranks: len(f.regs)})
		return reg, nil
	}
	hosts := make([]string, ranks)
	for r, reg := range f.regs {
		hosts[r] = reg.host
	}
	var id ID
	rand.Read(id[:])
	for _, r := range f.regs {
		r.out <- message{Kind: kindFormed, Group: id, Hosts: hosts}
	}
	delete(d.jobs, job)
	return reg, nil
}

// withdraw takes reg back if the job is still forming.
func (d *directory) withdraw(job string, reg *registration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.jobs[job]
	if f == nil || f.regs[reg.rank] != reg {
		return
	}
	delete(f.regs, reg.rank)
	if len(f.regs) == 0 {
		delete(d.jobs, job)
		return
	}
	f.tell(message{Kind: kindWaiting, Ranks: len(f.regs)})
}

// tell sends m to every registration that has more than the last place free.
func (f *forming) tell(m message) {
	for _, r := range f.regs {
		if len(r.out) < cap(r.out)-1 {
			r.out <- m
		}
	}
}

// claims names one rank that registered before, for the error message.
func (f *forming) claims() string {
	for rank := range f.ranks {
		if r := f.regs[rank]; r != nil {
			return fmt.Sprintf("rank %d on %s says %d", rank, r.host, f.ranks)
		}
	}
	return fmt.Sprintf("others say %d", f.ranks)
}

// serve answers one registration stream whose first message was m.
func (d *directory) serve(host string, m message, c conn) {
	defer c.Close()
	if m.Ranks < 1 || m.Ranks > maxRanks || m.Rank < 0 || m.Rank >= m.Ranks || m.Job == "" || len(m.Job) > 256 {
		c.Send(message{Kind: kindRefused, Failure: &Failure{Kind: Internal, Rank: -1,
			Cause: fmt.Sprintf("registration of rank %d of %d in job %.256q is malformed", m.Rank, m.Ranks, m.Job)}})
		c.Recv() // let the answer arrive; the other side closes
		return
	}
	reg, bad := d.register(m.Job, host, m.Rank, m.Ranks)
	if bad != nil {
		c.Send(message{Kind: kindRefused, Failure: bad})
		c.Recv()
		return
	}
	defer d.withdraw(m.Job, reg)
	gone := make(chan struct{})
	go func() { // ends when the stream does, at the latest when serve closes it
		defer close(gone)
		c.Recv()
	}()
	defer func() { c.Abort(); <-gone }()
	for {
		select {
		case m := <-reg.out:
			if c.Send(m) != nil {
				return
			}
			if m.Kind != kindWaiting {
				<-gone
				return
			}
		case <-gone:
			return
		}
	}
}
