package group

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"sync"
	"time"
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

// newsPause gathers the arrivals of a moment: told of each, n ranks would get n² messages.
const newsPause = 200 * time.Millisecond

// A directory brings together the ranks of the jobs that hash to this host. A
// registration lives as long as its stream: a rank that gives up, or whose host
// dies, is withdrawn and the others go on waiting, each no longer than it said.
type directory struct {
	tree func(roster []string) *Tree // of a group that forms, nil for none

	mu   sync.Mutex // guards jobs and what is in them, and formed; nothing blocks while it is held
	jobs map[string]*forming
	// formed are the last words to the ranks of groups that formed a short time ago: the stream that bore one may be dead, and its host
	// asks again on another.
	formed map[ticket]message
}

// A ticket is the word of a Join at a host that it is the same as one before.
type ticket struct {
	host  string
	rank  int
	token uint64
}

// maxFormed bounds the words that are kept.
const maxFormed = 1 << 16

// A forming is a job whose ranks have not all come.
type forming struct {
	job    string
	ranks  int
	regs   map[int]*registration
	expiry *time.Timer // fires when the time of a rank may be up; nil while no rank has a limit
	fires  time.Time   // when expiry does
	news   *time.Timer // fires to tell who is missing; nil while there is no news
}

type registration struct {
	host          string
	rank          int
	token         uint64
	limit         time.Duration // from now on; 0 is none
	given         time.Duration // what the rank was given when it began to wait; 0 is none
	until         time.Time     // when limit ends
	small, offers bool          // the host knows how small operations travel, and takes plans that are offered
	out           chan message  // waiting (dropped when full), then one formed or refused
}

// register enters the rank of reg. The returned registration's channel brings the answer.
func (d *directory) register(host string, m message) (*registration, *Failure) {
	whole := func() {} // tells all that the group has formed
	defer func() { whole() }()
	d.mu.Lock()
	defer d.mu.Unlock()
	if formed, ok := d.formed[ticket{host, m.Rank, m.Token}]; ok && m.Token != 0 {
		reg := &registration{host: host, rank: m.Rank, out: make(chan message, 1)}
		reg.out <- formed
		return reg, nil
	}
	f := d.jobs[m.Job]
	if f == nil {
		if len(d.jobs) >= maxJobs {
			return nil, &Failure{Kind: Internal, Rank: -1, Cause: fmt.Sprintf("%d jobs are forming already", maxJobs)}
		}
		f = &forming{job: m.Job, ranks: m.Ranks, regs: make(map[int]*registration)}
		d.jobs[m.Job] = f
	}
	if f.ranks != m.Ranks {
		bad := &Failure{Kind: Mismatch, Rank: m.Rank, Host: host, Cause: fmt.Sprintf(
			"rank %d on %s says the job has %d ranks, %s", m.Rank, host, m.Ranks, f.claims())}
		d.refuse(f, bad)
		return nil, bad
	}
	// A host asks twice only when its first stream broke: it holds each rank once. That
	// the stream has ended may take this host longer to find out.
	if old := f.regs[m.Rank]; old != nil && old.host != host {
		return nil, taken(m.Job, m.Rank, host, old.host)
	}
	reg := &registration{
		host: host, rank: m.Rank, token: m.Token, limit: m.Limit, given: m.Limit + m.Waited, small: m.Small >= smallVersion, offers: m.Offers, out: make(chan message, 4),
	}
	f.regs[m.Rank] = reg
	if len(f.regs) < f.ranks {
		d.limit(f, reg)
		d.changed(f)
		return reg, nil
	}
	hosts, small, offers := make([]string, f.ranks), true, true
	for r, reg := range f.regs {
		hosts[r] = reg.host
		small, offers = small && reg.small, offers && reg.offers
	}
	var id ID
	rand.Read(id[:])
	d.forget(f)
	whole = func() { // outside the lock: the map is looked at
		formed := message{Kind: kindFormed, Group: id, Hosts: hosts}
		if small {
			formed.Tree = d.tree(hosts)
		}
		if t := formed.Tree; t != nil {
			t.Brief, t.Offers = true, offers && !t.oneSite()
		}
		d.remember(f, formed)
		for _, r := range f.regs { // which nobody else has any more
			r.out <- formed // room is kept for it
		}
	}
	return reg, nil
}

// remember keeps the last word to the ranks of f for as long as their coordinator waits for them.
func (d *directory) remember(f *forming, formed message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.formed)+len(f.regs) > maxFormed {
		return
	}
	if d.formed == nil {
		d.formed = make(map[ticket]message)
	}
	for _, r := range f.regs {
		d.formed[ticket{r.host, r.rank, r.token}] = formed
	}
	time.AfterFunc(attachTimeout, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, r := range f.regs {
			delete(d.formed, ticket{r.host, r.rank, r.token})
		}
	})
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
		d.finish(f, message{})
		return
	}
	d.changed(f)
}

// finish gives every rank that waits its last message and forgets the job.
func (d *directory) finish(f *forming, last message) {
	for _, r := range f.regs {
		r.out <- last // room is kept for it
	}
	d.forget(f)
}

func (d *directory) forget(f *forming) {
	for _, t := range []*time.Timer{f.expiry, f.news} {
		if t != nil {
			t.Stop()
		}
	}
	delete(d.jobs, f.job)
}

func (d *directory) refuse(f *forming, why *Failure) {
	d.finish(f, message{Kind: kindRefused, Failure: why})
}

// limit sees to it that the job ends when reg's time is up.
func (d *directory) limit(f *forming, reg *registration) {
	if reg.limit <= 0 {
		return
	}
	reg.until = time.Now().Add(reg.limit)
	switch {
	case f.expiry == nil:
		f.expiry = time.AfterFunc(reg.limit, func() { d.expire(f) })
	case f.fires.IsZero() || reg.until.Before(f.fires):
		f.expiry.Reset(reg.limit)
	default:
		return
	}
	f.fires = reg.until
}

// expire ends the job if a rank's time is up. That of a rank which has given up since
// does not count.
func (d *directory) expire(f *forming) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.jobs[f.job] != f {
		return
	}
	var first *registration
	for _, r := range f.regs {
		if r.limit > 0 && (first == nil || r.until.Before(first.until) || r.until.Equal(first.until) && r.rank < first.rank) {
			first = r
		}
	}
	if first == nil {
		f.fires = time.Time{}
		return
	}
	if left := time.Until(first.until); left > 0 {
		f.fires = first.until
		f.expiry.Reset(left)
		return
	}
	here := listRanks(f.ranks, func(r int) bool { return f.regs[r] != nil })
	missing := f.missing()
	lowest := 0
	for f.regs[lowest] != nil {
		lowest++
	}
	d.refuse(f, &Failure{Kind: NotFormed, Rank: lowest, Cause: fmt.Sprintf(
		"%s not joined job %q (%d of %d missing) in the %v that rank %d on host %s has waited; %s",
		missing.phrase(), f.job, missing.count, f.ranks, first.given.Round(time.Millisecond), first.rank, first.host, here.phrase())})
}

func (f *forming) missing() rankList {
	return listRanks(f.ranks, func(r int) bool { return f.regs[r] == nil })
}

// changed has those that wait told, in a moment, who is missing.
func (d *directory) changed(f *forming) {
	if f.news != nil {
		return
	}
	f.news = time.AfterFunc(newsPause, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.jobs[f.job] != f {
			return
		}
		f.news = nil
		f.tell(message{Kind: kindWaiting, Ranks: len(f.regs), Missing: f.missing().short()})
	})
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
	if m.Ranks < 1 || m.Ranks > maxRanks || m.Rank < 0 || m.Rank >= m.Ranks || m.Limit < 0 || m.Waited < 0 || m.Waited > math.MaxInt64-m.Limit || m.Job == "" || len(m.Job) > 256 {
		c.Send(message{Kind: kindRefused, Failure: &Failure{Kind: Internal, Rank: -1,
			Cause: fmt.Sprintf("registration of rank %d of %d in job %.256q is malformed", m.Rank, m.Ranks, m.Job)}})
		c.Recv() // let the answer arrive; the other side closes
		return
	}
	reg, bad := d.register(host, m)
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
