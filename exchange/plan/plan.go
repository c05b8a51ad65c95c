package plan

// Collective names the operation.
type Collective string

// The collectives that a plan can describe.
const (
	Allgather Collective = "allgather"
	Alltoall  Collective = "alltoall"
)

// All is the Dest of an allgather block: every rank wants it.
const All = -1

// What [Transfer.Sync] can say: when an entry of After that brings the transfer no data
// counts as complete, and who tells whom.
const (
	SyncSender   = "sender"   // its data have left its source, which tells the later source
	SyncReceiver = "receiver" // its data have arrived, and its destination tells the later source
	SyncDummy    = "dummy"    // as sender: its source sends on behind it, to itself or a dummy to the later source
	SyncBarrier  = "barrier"  // it is complete, and so are all others of its phase, everywhere
)

// A Block is what one rank contributes (allgather: Dest is [All]) or sends to one
// other rank (alltoall). Origin and Dest index [Plan.Hosts].
type Block struct {
	Origin int `json:"origin"`
	Dest   int `json:"dest"`
	// Piece counts the pieces of a block that [Plan.Cuts] cuts, from 0; of a block in one piece it is 0.
	Piece int `json:"piece,omitempty"`
}

// ClaimOrder is the kind of a [Claim] that a host sends one message after the other, in the order of the phases.
const ClaimOrder = "order"

// A Claim says which messages of different phases the After edges of a plan keep apart,
// where they would share a link of the switch tree (Faraj, Yuan & Patarasuk, §5).
type Claim struct {
	Kind   string `json:"kind"`             // one of [SyncSender] and its like, or [ClaimOrder]
	Block  int    `json:"block,omitempty"`  // phases per block; 0: blocks of one phase
	Within string `json:"within,omitempty"` // with barriers between blocks: what is inside them
	// Strict says that every two such messages of different blocks are ordered. With sender
	// and receiver in blocks the papers' way orders only some; without blocks all are.
	Strict bool `json:"strict,omitempty"`
	// Lead, of kind [SyncReceiver] or [SyncBarrier] without blocks, lets who runs the plan hide the way of the news: a
	// later message may start when no more than so many bytes of the earlier one have still to arrive,
	// and one of the same source when the earlier has left. The edges are those of no lead.
	Lead int64 `json:"lead_bytes,omitempty"`
}

// Ahead returns the lead of p's synchronisations in bytes; 0 for none.
func (p *Plan) Ahead() int64 {
	if p.Sync == nil {
		return 0
	}
	return p.Sync.Lead
}

// A Transfer is one or several blocks from one host to one other.
type Transfer struct {
	ID     int     `json:"id"` // equals the index in Plan.Transfers
	Src    int     `json:"src"`
	Dst    int     `json:"dst"`
	Blocks []Block `json:"blocks"`

	// Phase is the phase, or -1 where the algorithm has none (then absent in JSON).
	Phase int `json:"phase"`
	// After lists the transfers that must be complete before this one starts:
	// data dependencies and synchronisations.
	After []int `json:"after"`
	// Sync names the synchronisation that the non-data entries of After come from, one of
	// [SyncSender] and its like; empty where there are none, or none has a name.
	Sync string `json:"sync,omitempty"`
	// Start and End are predicted seconds from the start of the collective.
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

// Teller returns the host whose news t waits for when it comes after a without getting
// data from it, and whether the news is that a's data have left its source (else
// that a is complete). A host that a ends at needs no news from anyone. See also [Plan.Teller].
func (t *Transfer) Teller(a *Transfer) (host int, left bool) {
	if (t.Sync == SyncSender || t.Sync == SyncDummy) && a.Dst != t.Src {
		return a.Src, true
	}
	return a.Dst, false
}

// Teller is t.Teller(a) in p: where the plan has a lead, that a has left is enough for a host that
// sends both. What they share of their ways they share from the source on, and there a goes first.
func (p *Plan) Teller(t, a *Transfer) (host int, left bool) {
	if p.Ahead() > 0 && a.Src == t.Src {
		return t.Src, true
	}
	return t.Teller(a)
}

// A Plan is inert data: all transfers of one collective. See docs/formats.md.
type Plan struct {
	Collective Collective `json:"collective"`
	Algorithm  string     `json:"algorithm"`
	Hosts      []string   `json:"hosts"`

	// MessageBytes is the size of every block; where sizes differ it is 0 and one
	// of Sizes (allgatherv: per rank) and Matrix (alltoallv: row = origin) is set.
	// Both are "sizes" in JSON.
	MessageBytes int64     `json:"message_bytes,omitempty"`
	Sizes        []int64   `json:"-"`
	Matrix       [][]int64 `json:"-"`

	// Cuts says which blocks travel in pieces, each by its own way; see [Cut]. Nil: none.
	Cuts []Cut `json:"cuts,omitempty"`

	Phases int `json:"phases,omitempty"`
	// Sync is what the plan claims of its phases; nil: nothing.
	Sync      *Claim     `json:"synchronisation,omitempty"`
	Makespan  float64    `json:"makespan_s"` // seconds, by the algorithm's own cost model
	Bound     float64    `json:"bound_s"`    // seconds, see [AllgatherBound]; 0 where unknown
	Transfers []Transfer `json:"transfers"`
}

// Bytes returns the bytes that transfer t carries.
func (p *Plan) Bytes(t *Transfer) int64 {
	var n int64
	for _, b := range t.Blocks {
		n += p.Size(b)
	}
	return n
}
