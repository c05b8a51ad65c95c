package netmap

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

func diffMap(t *testing.T, text string) *Snapshot {
	t.Helper()
	s, err := ParseMatrix([]byte(text), time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCompare(t *testing.T) {
	before := diffMap(t, `{"hosts":[{"name":"a","site":"X"},{"name":"b","site":"X"},{"name":"c","site":"Y"},{"name":"old","site":"Y"}],
		"bandwidth_mbps":[[0,100,2,1],[100,0,2,1],[2,2,0,1],[1,1,1,0]],
		"latency_s":[[0,0.00006,0.05,0],[0.00006,0,0.05,0],[0.05,0.05,0,0],[0,0,0,0]],
		"loss":[[0,0,0.0001,0],[0,0,null,0],[0,0,0,0],[0,0,0,0]]}`)
	// The hosts stand in another order, b has moved to Y, old is gone and new has come.
	after := diffMap(t, `{"hosts":[{"name":"c","site":"Y"},{"name":"new","site":"Z"},{"name":"b","site":"Y"},{"name":"a","site":"X"}],
		"bandwidth_mbps":[[0,1,2.2,2.21],[1,0,1,1],[2.2,1,0,100],[0.5,1,105,0]],
		"latency_s":[[0,0,0.05,0.05],[0,0,0,0],[0.05,0,0,0.00014],[0.05,0,0.0003,0]],
		"loss":[[0,0,0,0.02],[0,0,0,0],[0,0,0,0],[0.0009,0,0,0]],
		"capacity_mbps":[[0,null,4,null],[0.1,0,0.1,0.1],[null,null,0,null],[null,null,null,0]]}`)
	d, err := Compare(before, after, 0.10)
	if err != nil {
		t.Fatal(err)
	}
	if want := []Host{{Name: "new", Site: "Z"}}; !slices.Equal(d.Came, want) {
		t.Errorf("came %v, want %v", d.Came, want)
	}
	if want := []Host{{Name: "old", Site: "Y"}}; !slices.Equal(d.Left, want) {
		t.Errorf("left %v, want %v", d.Left, want)
	}
	if want := []Relabel{{Host{Name: "b", Site: "Y"}, "X"}}; !slices.Equal(d.Relabelled, want) {
		t.Errorf("relabelled %v, want %v", d.Relabelled, want)
	}
	if d.Pairs != 6 {
		t.Errorf("%d pairs, want those of a, b and c: 6", d.Pairs)
	}
	type moved struct {
		from, to string
		fields   Field
	}
	var got []moved
	for _, c := range d.Changes {
		got = append(got, moved{c.From.Name, c.To.Name, c.Moved})
	}
	want := []moved{
		{"a", "b", FieldLatency},   // 105 is not 10 % above 100; 0.06 ms became 0.3 ms
		{"a", "c", FieldBandwidth}, // a loss of 0.0001 that became 0.0009 is nothing
		{"b", "c", FieldLoss},      // was not known; 2 became 2.2, which is no more than 10 %
		{"c", "a", FieldBandwidth | FieldLoss},
		{"c", "b", FieldCapacity}, // 0.06 ms that became 0.14 ms do not count
	}
	if !slices.Equal(got, want) {
		t.Errorf("moved\n%v, want\n%v", got, want)
	}
	if _, err := Compare(before, after, math.NaN()); err == nil {
		t.Error("a threshold that is no number is taken")
	}
}

func TestDiffSites(t *testing.T) {
	before := diffMap(t, `{"hosts":[{"name":"a","site":"X"},{"name":"b","site":"X"},{"name":"c","site":"Y"},{"name":"d","site":"Y"}],
		"bandwidth_mbps":[[0,9,2,4],[9,0,6,null],[1,1,0,9],[1,1,9,0]],"latency_s":[[0,0,0,0],[0,0,0,0],[0,0,0,0],[0,0,0,0]]}`)
	after := diffMap(t, `{"hosts":[{"name":"a","site":"X"},{"name":"b","site":"X"},{"name":"c","site":"Y"},{"name":"d","site":"Y"}],
		"bandwidth_mbps":[[0,9,1,2],[9,0,12,3],[1,null,0,9],[1,1,9,0]],"latency_s":[[0,0,0.1,0],[0,0,0,0],[0,0,0,0],[0,0,0,0]]}`)
	d, err := Compare(before, after, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	mbps := func(v BytesPerSec) Estimate { return Estimate{Known: FieldBandwidth, Bandwidth: v * Mbps} }
	want := []SiteChange{
		{From: "X", To: "Y", Changed: 4, Moved: []FieldChange{
			{Field: FieldBandwidth, Rose: 1, Fell: 2, Came: 1, Before: mbps(4), After: mbps(2)},
			{Field: FieldLatency, Rose: 1, Before: Estimate{Known: FieldLatency}, After: Estimate{Known: FieldLatency, Latency: 100 * time.Millisecond}},
		}},
		{From: "Y", To: "X", Changed: 1, Moved: []FieldChange{{Field: FieldBandwidth, Gone: 1}}},
	}
	if got := d.Sites(); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

// randomDiffMap returns a map of some of six hosts, in any order.
func randomDiffMap(rng *rand.Rand) *Snapshot {
	var hosts []Host
	for _, i := range rng.Perm(6)[:rng.IntN(7)] {
		hosts = append(hosts, Host{Name: string(rune('a' + i)), Site: string(rune('X' + rng.IntN(2)))})
	}
	est := make([]Estimate, len(hosts)*len(hosts))
	for i := range est {
		est[i] = Estimate{Known: Field(rng.IntN(1 << 5)), Source: SourceProbed,
			Bandwidth: BytesPerSec(1 + rng.IntN(4)), Capacity: BytesPerSec(1 + rng.IntN(4)),
			Latency: time.Duration(rng.IntN(4)) * 80 * time.Microsecond, Loss: float64(rng.IntN(4)) * 0.0008}
	}
	return NewSnapshot(0, hosts, est)
}

// TestCompareProperties: nothing changed against itself; the way back lists the same pairs,
// the other way round; a larger threshold lists a part of them; every pair beyond it is listed.
func TestCompareProperties(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 8))
		a, b := randomDiffMap(rng), randomDiffMap(rng)
		threshold := rng.Float64() * 2
		diff := func(before, after *Snapshot, threshold float64) *Diff {
			d, err := Compare(before, after, threshold)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return d
		}
		if d := diff(a, a, 0); !d.Empty() {
			t.Fatalf("seed %d: a map differs from itself: %+v", seed, d)
		}
		there, back := diff(a, b, threshold), diff(b, a, threshold)
		if !slices.Equal(hostNames(there.Came), hostNames(back.Left)) || !slices.Equal(hostNames(there.Left), hostNames(back.Came)) || there.Pairs != back.Pairs {
			t.Fatalf("seed %d: hosts there and back differ:\n%+v\n%+v", seed, there, back)
		}
		if len(there.Changes) != len(back.Changes) {
			t.Fatalf("seed %d: %d changes there, %d back", seed, len(there.Changes), len(back.Changes))
		}
		listed := make(map[[2]string]Field)
		for i, c := range there.Changes {
			r := back.Changes[i]
			if c.From.Name != r.From.Name || c.To.Name != r.To.Name || c.Moved != r.Moved || c.Before != r.After || c.After != r.Before {
				t.Fatalf("seed %d: there %+v, back %+v", seed, c, r)
			}
			listed[[2]string{c.From.Name, c.To.Name}] = c.Moved
		}
		for _, c := range diff(a, b, threshold+rng.Float64()).Changes {
			if c.Moved&^listed[[2]string{c.From.Name, c.To.Name}] != 0 {
				t.Fatalf("seed %d: a larger threshold lists more: %+v", seed, c)
			}
		}
		for i, from := range b.Hosts() {
			for j, to := range b.Hosts() {
				k, l := a.Index(from.Name), a.Index(to.Name)
				if i == j || k < 0 || l < 0 {
					continue
				}
				x, y := a.Estimate(k, l), b.Estimate(i, j)
				if !x.Has(FieldBandwidth) || !y.Has(FieldBandwidth) {
					continue
				}
				far := math.Abs(math.Log(float64(x.Bandwidth/y.Bandwidth))) > math.Log1p(threshold)+1e-9
				if far && listed[[2]string{from.Name, to.Name}]&FieldBandwidth == 0 {
					t.Fatalf("seed %d: %s→%s from %v to %v is not listed at threshold %v", seed, from.Name, to.Name, x.Bandwidth, y.Bandwidth, threshold)
				}
			}
		}
		sum := 0
		for _, s := range there.Sites() {
			sum += s.Changed
		}
		if sum != len(there.Changes) {
			t.Fatalf("seed %d: sites sum up %d of %d changes", seed, sum, len(there.Changes))
		}
	}
}

func hostNames(hosts []Host) []string {
	var out []string
	for _, h := range hosts {
		out = append(out, h.Name)
	}
	return out
}
