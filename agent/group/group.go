package group

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Planned is what the planner says of the plan whose parts it returned.
type Planned struct {
	Algorithm string        `json:"alg"`
	Epoch     uint64        `json:"epoch"`            // of the snapshot that it was made from
	Cost      time.Duration `json:"cost"`             // time that planning took
	Bound     time.Duration `json:"bound"`            // the least time that any schedule could take; 0 where unknown
	Direct    time.Duration `json:"direct,omitempty"` // the least without relays, of an alltoall across sites; 0 where there is none
	Predicted time.Duration `json:"predicted"`        // by the plan's own model; 0 where unknown
	Given     bool          `json:"given,omitempty"`  // the plan came from a rank
	Reason    string        `json:"reason,omitempty"` // why this algorithm, in at most 200 bytes
	Cached    bool          `json:"cached,omitempty"` // the plan was made for an operation before
}

// Finished tells of an operation that was planned and is over, at all hosts.
type Finished struct {
	Group      ID
	Seq        uint64
	Collective plan.Collective // as it was planned: that of a broadcast is an allgather
	Planned
	Hosts []string // as in the [Request]
	// Stale says that hosts had begun by a plan that stood, and that the planner would have made another.
	Stale bool
	// Elapsed is the time from the instant at which all hosts begin to the completion of the
	// last, by the coordinator's clock: news of it less their one-way latency.
	Elapsed time.Duration
	// Spread is how long before the last host the first one has begun, if that was not by the coordinator's word.
	Spread time.Duration
	// Ended is when the last completed, by the coordinator's clock: before now, as news of it may wait for others to go with.
	Ended time.Time
}

// A Request asks for the plan of one collective over hosts.
type Request struct {
	Group      ID
	Seq        uint64
	Collective plan.Collective
	Hosts      []string  // those that carry ranks, in the order of their lowest rank
	Sizes      []int64   // allgather: bytes of each host's block: its ranks' blocks together
	Matrix     [][]int64 // alltoall: bytes that all ranks of a host (row) have for all of another; 0 for its own
	Algorithm  string    // as the ranks asked; empty for the default
	Options    Options
	Plan       []byte // to be run, if it is right, in place of an algorithm's; nil for none
	Ahead      bool   // nothing begins now: the plan is for later, and not worth a wait for the map
}

// A Segment is a place in the results, or in what a host sends.
type Segment struct{ Offset, Len int64 }

// A Buffer is memory for a result that clients of the same host can map.
type Buffer interface {
	Bytes() []byte // all of it, writable until Seal
	// Path is the file that clients map, empty where there is none. It may be made when it is asked for, once all bytes are there.
	Path() (string, error)
	Release() // unmap and remove
}

// Transferred counts what one exchange moved at this host, in all and by peer: payload, each
// byte once.
type Transferred struct {
	Sent, Received int64
	Peers          []PeerTraffic // by name

	// A link fell under way: how often others took over a part of what this host had left, how many bytes, and how
	// many it took over from others; and what arrived another time.
	Replanned                     int
	TakenOver, Helped, Duplicates int64
}

// PeerTraffic counts what was exchanged with one host. Resent is what was sent another time,
// after a lane broke.
type PeerTraffic struct {
	Host                   string
	Sent, Received, Resent int64
}

// An Exchange is one host's part under way.
type Exchange struct {
	Part  []byte // as the planner made it for this host
	Hosts []string
	// Send holds this host's own blocks. Nil means that they are in Results.
	Send []byte
	// Results take what arrives. Offsets count as if they stood one behind the other.
	Results [][]byte
	// Layout returns where a block that starts here lies in Send, or one that ends here in
	// Results, in block order. Blocks index Hosts.
	Layout func(b plan.Block) []Segment
	// Sure is closed when it is known that all hosts begin; nil: it is. Shown says that bytes of all of them come here, which shows it as well.
	Sure  <-chan struct{}
	Shown bool
	// Landed is called at most once, when this host's ranks have all that they get and what the others get of it is under way, not before
	// it is sure of them: the rest of Config.Run waits for their confirmations, with the buffers in use.
	Landed func(Transferred)
	// Watch hands over a function that tells how many bytes have arrived and how many
	// will. It is called at most once, before the first byte.
	Watch func(progress func() (done, total int64))
}

// Config is what [Groups] needs from the agent.
type Config struct {
	Self string
	// Open opens a stream of messages to the agent on host.
	Open func(ctx context.Context, host string) (Stream, error)
	// Again opens another stream to the agent on host, from whose last one nothing has come since then, best by way of a third host. It asks wanted
	// when it has one: the host may have spoken meanwhile. Nil: a host that its coordinator cannot reach is lost.
	Again func(ctx context.Context, host string, since time.Time, wanted func() bool) (Stream, error)
	// Members lists the hosts that are believed alive, Self among them.
	Members func() []string
	// Plan makes a plan and returns it part by part, in the order of Hosts.
	Plan func(ctx context.Context, r Request) ([][]byte, Planned, error)
	// Finished is told of every operation that was planned, when all hosts have said that they
	// are done. It must not block. Nil means that nobody wants to know.
	Finished func(Finished)
	// Run carries out this host's part.
	Run func(ctx context.Context, x Exchange) (Transferred, error)
	// Restamp returns a copy of a part that is of operation seq of a group, and Refuse has the host turn away what comes for a
	// part that will not run here. Nil: no host begins before the coordinator's word, see standing.go.
	Restamp func(part []byte, id ID, seq uint64) ([]byte, error)
	Refuse  func(id ID, seq uint64)
	// Known reports whether a part of operation seq of a group has run here or was turned away, so that Run would fail. It must not
	// block. Nil: none has.
	Known func(id ID, seq uint64) bool
	// Stands reports whether Plan would give a plan of before. Nil: that is found out when it is asked for.
	Stands func(r Request) bool
	// Alloc makes room for a result of operation seq of a group, or for what is sent.
	Alloc func(id ID, seq uint64, bytes int64) (Buffer, error)
	// Scratch makes room for what is sent and no client sees. Nil: Alloc does.
	Scratch func(bytes int64) (Buffer, error)
	// Tree says how small operations of a group over hosts, in the order of their lowest rank,
	// travel. Nil means that they are planned like others.
	Tree func(hosts []string) Tree
	// Small forecasts how long what r asks for takes if it travels with its calls, until the last host has all: by the leaders of the hosts (see [Tree]), or, of an
	// alltoall, straight. Nil: nobody knows.
	Small func(r Request, leaders []int, straight bool) time.Duration
	// Latency estimates the one-way latency from host, 0 where unknown.
	Latency func(host string) time.Duration
	// Way says what is believed of the way to host: with many groups at once their messages are spread over time, see
	// [Way]. It must not block. Nil means that nothing is known of any way.
	Way func(host string) Way
	// Heard counts what has arrived from host on any stream, so that a host whose words are
	// late is not taken for dead. Nil means that it is not known.
	Heard func(host string) uint64
	// Log receives state changes. Nil discards.
	Log *slog.Logger
}

// Groups is the agent's share in all groups. Its methods may be called concurrently.
type Groups struct {
	cfg      Config
	log      *slog.Logger
	dir      directory
	hurry    hurry
	turns    turns
	shelf    shelf
	sessions sessions
	ctx      context.Context // ends with Run
	stop     context.CancelFunc
	tasks    sync.WaitGroup

	mu       sync.Mutex // guards the fields below; nothing blocks while it is held
	closed   bool
	claimed  map[claim]*holding  // ranks of this host's clients, from Join to Leave
	members  map[ID]*member      // groups with ranks on this host
	coords   map[ID]*coordinator // groups whose rank 0 is on this host
	over     map[ID]*Failure     // groups that failed a short time ago, before all ranks of this host had entered or with their coordinator here
	early    earlyConns          // empty once closed
	entered  chan struct{}       // closed, and replaced, when there is a further member
	awaiting int                 // how many wait for that
}

// New returns a Groups that takes part once [Groups.Run] runs.
func New(cfg Config) *Groups {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Latency == nil {
		cfg.Latency = func(string) time.Duration { return 0 }
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Groups{
		cfg: cfg, log: cfg.Log, ctx: ctx, stop: stop,
		dir:     directory{jobs: make(map[string]*forming)},
		claimed: make(map[claim]*holding),
		members: make(map[ID]*member),
		coords:  make(map[ID]*coordinator),
		over:    make(map[ID]*Failure),
		early:   newEarlyConns(),
		entered: make(chan struct{}),
	}
	g.dir.tree = g.treeOf
	return g
}

// Run takes part in groups until ctx ends; then every group with ranks here fails.
// When it returns, every goroutine of the package has ended.
func (g *Groups) Run(ctx context.Context) error {
	<-ctx.Done()
	g.mu.Lock()
	g.closed = true
	members := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		members = append(members, m)
	}
	early := g.early.takeAll()
	g.mu.Unlock()
	awaitRests(members)
	for _, m := range members {
		m.stop()
	}
	for _, a := range early {
		a.c.Abort()
	}
	g.stop()
	g.tasks.Wait()
	return nil
}

// awaitRests lets what other hosts wait for arrive, of operations that are over here, for as long as LastWords.
func awaitRests(members []*member) {
	timer := time.NewTimer(LastWords)
	defer timer.Stop()
	for _, m := range members {
		for _, through := range m.resting() {
			select {
			case <-through:
			case <-timer.C:
				return
			}
		}
	}
}

// start runs f as a goroutine of g, unless g is closed.
func (g *Groups) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.startLocked(f)
}

func (g *Groups) startLocked(f func()) bool {
	if g.closed {
		return false
	}
	g.tasks.Go(f)
	return true
}

// LastWords is how long peers that do not listen, or do not confirm, can each hold up the end of Run. Its own ranks are told that the host
// stops when that time for those that do not confirm is over, at the latest.
const LastWords = 2 * time.Second

// Serve handles one incoming stream of messages from the agent on host. It returns when
// it is done with the stream, or when the stream waits for its coordinator: it then ends
// with the group, after attachTimeout, or with Run.
func (g *Groups) Serve(host string, s Stream) {
	c := newStreamConn(s)
	stop := context.AfterFunc(g.ctx, c.Abort)
	defer stop()
	m, err := c.Recv()
	switch {
	case err != nil:
		c.Abort()
	case m.Kind == kindRegister:
		g.dir.serve(host, m, c)
	case m.Kind == kindAttach:
		stop() // when this host stops, its coordinator tells the others why, and ends the conn
		c.heard = g.heard(host)
		s := g.sessions.accept(host, &m, c)
		if s == nil {
			return // who has its session reads on here
		}
		defer context.AfterFunc(g.ctx, func() { time.AfterFunc(LastWords, s.Abort) })()
		g.attach(m.Group, attached{host, s, m.Shown})
	case m.Kind == kindResume:
		stop()
		if err := g.sessions.resume(host, &m, c); err != nil {
			g.log.Debug("stream refused", "peer", host, "group", m.Group, "err", err)
			if !errors.Is(err, errNoSession) || c.Send(message{Kind: kindAbort, Failure: g.epitaph(m.Group)}) != nil {
				c.Abort()
				return
			}
			c.Close()
		}
	case m.Kind == kindPeer:
		g.servePeer(host, m.Group, c)
	default:
		g.log.Warn("stream refused: unknown message", "peer", host, "kind", string(m.Kind))
		c.Abort()
	}
}

// epitaph is what a member hears that asks for a coordinator which is not here. Its last words may have been lost on the way on which the
// member heard nothing.
func (g *Groups) epitaph(id ID) *Failure {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.over[id]; f != nil {
		return f
	}
	return &Failure{Kind: RankLost, Rank: 0, Host: g.cfg.Self, Cause: "its agent knows nothing of the group any more"}
}

// Status describes one group with ranks on this host.
type Status struct {
	Job        string
	Ranks      int
	LocalRanks []int
	State      string // formed, running or failed
}

// Status lists the groups with ranks on this host, in no order.
func (g *Groups) Status() []Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Status
	for _, m := range g.members {
		out = append(out, m.status())
	}
	return out
}

// Busy reports whether an operation is running on this host.
func (g *Groups) Busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		if m.busy() {
			return true
		}
	}
	return false
}

// heard returns Config.Heard for one host, nil if there is none.
func (g *Groups) heard(host string) func() uint64 {
	if g.cfg.Heard == nil {
		return nil
	}
	return func() uint64 { return g.cfg.Heard(host) }
}
