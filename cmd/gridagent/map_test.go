package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
	"github.com/gridagent/gridagent/probe/netmap"
)

// serveAgent answers the local API with h on a Unix socket, and returns its path.
func serveAgent(t *testing.T, h apiv1connect.AgentServiceHandler) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	_, handler := apiv1connect.NewAgentServiceHandler(h)
	srv := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return socket
}

// mapAgent is an agent that knows maps.
type mapAgent struct {
	apiv1connect.UnimplementedAgentServiceHandler
	now    []byte            // the map as it is
	epochs map[uint64][]byte // those of pool trees
}

func (m *mapAgent) Map(context.Context, *connect.Request[apiv1.MapRequest]) (*connect.Response[apiv1.MapResponse], error) {
	return connect.NewResponse(&apiv1.MapResponse{MatrixJson: m.now, Epoch: 7, PairsMeasured: 1, PairsTotal: 2}), nil
}

func (m *mapAgent) MapDiff(_ context.Context, r *connect.Request[apiv1.MapDiffRequest]) (*connect.Response[apiv1.MapDiffResponse], error) {
	from, to := r.Msg.GetFrom(), r.Msg.GetTo()
	if from == 0 {
		from = 1
	}
	reply := &apiv1.MapDiffResponse{From: from, To: to, FromJson: m.epochs[from], ToJson: m.now}
	if to != 0 {
		reply.ToJson = m.epochs[to]
	}
	if reply.FromJson == nil || reply.ToJson == nil {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("no map of that epoch is kept"))
	}
	return connect.NewResponse(reply), nil
}

// matrix writes s as the agent does.
func matrix(t *testing.T, s *netmap.Snapshot, now time.Time) []byte {
	t.Helper()
	b, err := netmap.AppendMatrix(nil, s, now)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const threeHosts = `{"hosts":[{"name":"a","site":"X"},{"name":"b","site":"X"},{"name":"c","site":"Y, \"far\""}],
 "bandwidth_mbps":[[0,90,1.25],[95,0,null],[1.5,2,0]],"latency_s":[[0,0.00006,0.05],[0.00006,0,0.05],[0.05,null,0]],
 "capacity_mbps":[[0,null,10],[null,0,null],[null,null,0]],"lanes":[[0,null,8],[null,0,null],[null,null,0]],
 "loss":[[0,null,0.001],[null,0,null],[null,null,0]],"spread":[[0,0.02,0.2],[0.4,0,null],[null,null,0]],
 "readings":[[0,17,null],[null,0,null],[null,null,0]],"age_s":[[0,2.5,10],[10,0,null],[18000,10,0]],"source":[[0,3,3],[3,0,null],[3,1,0]],"epoch":12}`

// TestMapCSV reads what map -o csv prints with another reader.
func TestMapCSV(t *testing.T) {
	status, out, errs := gridagent(t, "map", "-o", "csv", "--socket", serveAgent(t, &mapAgent{now: []byte(threeHosts)}))
	if status != exitOK || errs != "" {
		t.Fatalf("status %d, %q", status, errs)
	}
	if strings.Count(out, "\r\n") != 7 || strings.Count(out, "\n") != 7 {
		t.Errorf("want 7 lines that end in CR LF:\n%q", out)
	}
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		strings.Split("from,to,from_site,to_site,bandwidth_mbps,spread,readings,capacity_mbps,lanes,loss,rtt_s,latency_s,age_s,source,carried_mbps", ","),
		{"a", "b", "X", "X", "90", "0.02", "17", "", "", "", "0.00012", "0.00006", "2.5", "probed", ""},
		{"a", "c", "X", `Y, "far"`, "1.25", "0.2", "", "10", "8", "0.001", "0.1", "0.05", "10", "probed", ""},
		{"b", "a", "X", "X", "95", "0.4", "", "", "", "", "0.00012", "0.00006", "10", "probed", ""},
		{"b", "c", "X", `Y, "far"`, "", "", "", "", "", "", "0.1", "0.05", "", "", ""},
		{"c", "a", `Y, "far"`, "X", "1.5", "", "", "", "", "", "0.1", "0.05", "18000", "probed", ""},
		{"c", "b", `Y, "far"`, "X", "2", "", "", "", "", "", "", "", "10", "predicted", ""},
	}
	if !slices.EqualFunc(rows, want, slices.Equal) {
		t.Errorf("rows\n%q, want\n%q", rows, want)
	}
}

// TestMapColors checks that colours tell old, uncertain, predicted and missing apart, that they
// do not shift columns, and when they are left out.
func TestMapColors(t *testing.T) {
	socket := serveAgent(t, &mapAgent{now: []byte(threeHosts)})
	_, colored, _ := gridagent(t, "map", "--color", "always", "--socket", socket)
	for cell, color := range map[string]string{"90 / 60µs": "", "1.25 / 50ms": "33", "95 / 60µs": "31", "? / 50ms": "2", "1.5 / 50ms": "31", "~2 / ?": "36"} {
		want := cell
		if color != "" {
			want = "\x1b[" + color + "m" + cell + "\x1b[0m"
		}
		if !strings.Contains(colored, want) || color == "" && strings.Contains(colored, "m"+cell) {
			t.Errorf("%q is not in colour %q:\n%q", cell, color, colored)
		}
	}
	if !strings.Contains(colored, "uncertain by more than 15 %") {
		t.Errorf("no legend in\n%s", colored)
	}
	// On no terminal there is no colour, with or without NO_COLOR, and no legend.
	_, bare, _ := gridagent(t, "map", "--socket", socket)
	if strings.Contains(bare, "\x1b") || strings.Contains(bare, "uncertain") {
		t.Errorf("colours on what is no terminal:\n%q", bare)
	}
	stripped := colored[:strings.LastIndex(strings.TrimSpace(colored), "\n\n")+1]
	for _, c := range []string{"\x1b[33m", "\x1b[31m", "\x1b[36m", "\x1b[2m", "\x1b[0m"} {
		stripped = strings.ReplaceAll(stripped, c, "")
	}
	if stripped != bare {
		t.Errorf("colours change the text:\n%s\nwant\n%s", stripped, bare)
	}
	if status, _, _ := gridagent(t, "map", "--color", "sometimes", "--socket", socket); status != exitUsage {
		t.Errorf("--color sometimes: status %d, want %d", status, exitUsage)
	}
}

func TestPainter(t *testing.T) {
	a := &app{out: new(bytes.Buffer)}
	t.Setenv("NO_COLOR", "1")
	if a.painter("auto") || a.painter("never") || !a.painter("always") {
		t.Error("NO_COLOR stands above auto alone, and never on always")
	}
	t.Setenv("NO_COLOR", "")
	if a.painter("auto") {
		t.Error("colours on a buffer")
	}
}

func TestTrust(t *testing.T) {
	now := time.Unix(1e9, 0)
	e := func(age time.Duration, spread float64) netmap.Estimate {
		return netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: 1, Spread: spread, Measured: now.Add(-age), Source: netmap.SourceProbed}
	}
	for _, tt := range []struct {
		e    netmap.Estimate
		want trust
	}{
		{e(time.Minute, 0), trustGood}, {e(-time.Hour, 0.1), trustGood}, {e(20*time.Minute, 0), trustGood}, {e(20*time.Minute, 0.12), trustUncertain},
		{e(40*time.Minute, 0), trustUncertain}, {e(0, 0.2), trustUncertain}, {e(4*time.Hour, 0), trustDoubtful}, {e(0, 0.4), trustDoubtful},
		{netmap.Estimate{Known: netmap.FieldLatency}, trustUnknown},
		{netmap.Estimate{Known: netmap.FieldBandwidth, Source: netmap.SourcePredicted, Measured: now}, trustPredicted},
		{netmap.Estimate{Known: netmap.FieldBandwidth, Source: netmap.SourceDeclared}, trustGood}, // no age: a file
	} {
		if got := trustOf(tt.e, now); got != tt.want {
			t.Errorf("%+v: trust %d, want %d", tt.e, got, tt.want)
		}
	}
}

func TestFormatAge(t *testing.T) {
	now := time.Unix(1e9, 0)
	for age, want := range map[time.Duration]string{0: "0s", -time.Second: "0s", 2600 * time.Millisecond: "3s", 90 * time.Second: "2m", 3 * time.Hour: "3h", 185 * time.Minute: "3h5m", 50 * time.Hour: "2d"} {
		if got := formatAge(now.Add(-age), now); got != want {
			t.Errorf("%v is shown as %q, want %q", age, got, want)
		}
	}
}

// bigMap has hosts h00, h01, … in sites of which even and odd hosts are.
func bigMap(n, sites int, rate func(i, j int) float64) *netmap.Snapshot {
	hosts := make([]netmap.Host, n)
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		hosts[i] = netmap.Host{Name: fmt.Sprintf("h%02d", i), Site: fmt.Sprintf("S%d", i%sites)}
		for j := range n {
			if r := rate(i, j); i != j && r > 0 {
				est[i*n+j] = netmap.Estimate{Known: netmap.FieldBandwidth | netmap.FieldLatency, Latency: 20 * time.Millisecond,
					Bandwidth: netmap.BytesPerSec(r) * netmap.Mbps, Source: netmap.SourceProbed, Measured: time.Unix(1e9, 0)}
			}
		}
	}
	return netmap.NewSnapshot(9, hosts, est)
}

// TestMapSizes checks the three forms of the table: matrix, list, and sites.
func TestMapSizes(t *testing.T) {
	now := time.Unix(1e9, 0)
	rate := func(i, j int) float64 {
		switch {
		case i == 3 && j%2 == 0:
			return 1 // one slow host of S1
		case i%2 == j%2:
			return 100
		}
		return 10
	}
	for _, tt := range []struct {
		n, sites int
		args     string
		want     []string
		lines    int
	}{
		{14, 2, "map", []string{"from row to column", "FROM  h00", "10 / 20ms"}, 2 + 15},
		{15, 2, "map", []string{"a line a pair", "h00   h01  10      -       20ms"}, 2 + 1 + 15*14},
		{25, 2, "map", []string{"medians over the pairs of hosts", "S0    13     100 / 20ms", "S1    12     10 (1-10) / 20ms", "25 hosts: --all lists every pair"}, 2 + 1 + 2 + 2},
		{6, 2, "map --all", []string{"a line a pair"}, 2 + 1 + 6*5},
		{25, 2, "map --all", []string{"a line a pair"}, 2 + 1 + 25*24},
		{32, 8, "map", []string{"FROM  TO  PAIRS  KNOWN  MBIT/S", "S0    S1  16     16     10"}, 2 + 1 + 64 + 2},
	} {
		socket := serveAgent(t, &mapAgent{now: matrix(t, bigMap(tt.n, tt.sites, rate), now)})
		status, out, errs := gridagent(t, append(strings.Fields(tt.args), "--socket", socket)...)
		if status != exitOK || errs != "" {
			t.Fatalf("%d hosts: status %d, %q", tt.n, status, errs)
		}
		for _, w := range tt.want {
			if !strings.Contains(out, w) {
				t.Errorf("%d hosts, %s: no %q in\n%.600s", tt.n, tt.args, w, out)
			}
		}
		if n := strings.Count(out, "\n"); n != tt.lines {
			t.Errorf("%d hosts, %s: %d lines, want %d", tt.n, tt.args, n, tt.lines)
		}
	}
}

// TestSiteLinks: every pair is counted once, in the sites of its hosts.
func TestSiteLinks(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := rng.IntN(12)
		s := bigMap(n, 1+rng.IntN(4), func(int, int) float64 { return float64(rng.IntN(3)) })
		sites, hosts, links := siteLinks(s, time.Unix(1e9, 0))
		count, pairs, rated := 0, 0, 0
		for _, site := range sites {
			count += hosts[site]
		}
		for _, l := range links {
			pairs += l.pairs
			rated += len(l.bandwidth)
		}
		measured, _ := knownPairs(s)
		if count != n || pairs != n*max(n-1, 0) || rated != measured {
			t.Fatalf("seed %d: %d hosts, %d pairs, %d with a rate; want %d, %d, %d", seed, count, pairs, rated, n, n*(n-1), measured)
		}
	}
}

// TestMapDiff compares epochs, files, and a file with the map as it is.
func TestMapDiff(t *testing.T) {
	later := strings.Replace(threeHosts, "1.25", "0.3", 1)
	f := &mapAgent{now: []byte(later), epochs: map[uint64][]byte{1: []byte(threeHosts), 2: []byte(threeHosts)}}
	socket := serveAgent(t, f)
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before.json"), filepath.Join(dir, "after.json")
	if err := errors.Join(os.WriteFile(before, []byte(threeHosts), 0o600), os.WriteFile(after, []byte(later), 0o600)); err != nil {
		t.Fatal(err)
	}
	const changed = "1 of 6 pairs of hosts moved by more than 10%\n\nFROM  TO  MBIT/S    LATENCY  CAPACITY  LOSS\na     c   1.25→0.3  -        -         -\n"
	for _, tt := range []struct {
		args   []string
		status int
		out    string
		errs   string
	}{
		{nil, exitOK, "epoch 1 → now: " + changed, ""},
		{[]string{"1", "2"}, exitOK, "epoch 1 → epoch 2: 0 of 6 pairs of hosts moved by more than 10%\n", ""},
		{[]string{"2"}, exitOK, "epoch 2 → now: " + changed, ""},
		{[]string{"3", "4"}, exitFailure, "", "gridagent: no map of that epoch is kept\n"},
		{[]string{before}, exitOK, before + " → now: " + changed, ""},
		{[]string{before, after}, exitOK, before + " → " + after + ": " + changed, ""},
		{[]string{before, after, "--threshold", "3.2"}, exitOK, before + " → " + after + ": 0 of 6 pairs of hosts moved by more than 320%\n", ""},
		{[]string{before, "2"}, exitUsage, "", "gridagent: map diff " + before + " 2: give two epochs or two files; gridagent map -o json >FILE saves the map as it is\n"},
		{[]string{"0"}, exitUsage, "", "gridagent: epoch \"0\": pool trees are numbered from 1; a file of that name is given as ./0\n"},
		{[]string{before, after, "--threshold", "-1"}, exitUsage, "", "gridagent: --threshold -1: want 0 or more, such as 0.1 for a tenth\n"},
	} {
		status, out, errs := gridagent(t, append([]string{"map", "diff", "--socket", socket}, tt.args...)...)
		if status != tt.status || out != tt.out || errs != tt.errs {
			t.Errorf("map diff %q: status %d\n%s%s\nwant %d\n%s%s", tt.args, status, out, errs, tt.status, tt.out, tt.errs)
		}
	}
	status, _, errs := gridagent(t, "map", "diff", filepath.Join(dir, "none.json"), after)
	if status != exitFailure || !strings.Contains(errs, "none.json") {
		t.Errorf("a file that does not exist: status %d, %q", status, errs)
	}
}

func TestMapDiffJSON(t *testing.T) {
	later := strings.Replace(strings.Replace(threeHosts, "1.25", "0.3", 1), `"name":"b"`, `"name":"new"`, 1)
	f := &mapAgent{now: []byte(later), epochs: map[uint64][]byte{1: []byte(threeHosts)}}
	status, out, errs := gridagent(t, "map", "diff", "-o", "json", "--socket", serveAgent(t, f))
	if status != exitOK {
		t.Fatalf("status %d, %q", status, errs)
	}
	var r diffJSON
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if r.From != "epoch 1" || r.To != "now" || r.Pairs != 2 || len(r.Came) != 1 || r.Came[0] != (hostJSON{"new", "X"}) || len(r.Left) != 1 || len(r.Changes) != 1 {
		t.Fatalf("%s", out)
	}
	c := r.Changes[0]
	if c.From != "a" || c.To != "c" || c.ToSite != `Y, "far"` || !slices.Equal(c.Moved, []string{"bandwidth_mbps"}) || *c.Bandwidth[0] != 1.25 || *c.Bandwidth[1] != 0.3 ||
		*c.Capacity[0] != 10 || *c.Loss[1] != 0.001 {
		t.Errorf("%s", out)
	}
	if strings.Contains(out, `"relabelled": null`) {
		t.Errorf("an empty list is null:\n%s", out)
	}
}

// TestMapDiffOfMany: many changed pairs are summed up by sites.
func TestMapDiffOfMany(t *testing.T) {
	now := time.Unix(1e9, 0)
	dir := t.TempDir()
	before, after := filepath.Join(dir, "1.json"), filepath.Join(dir, "2.json")
	ten := func(i, j int) float64 { return 10 }
	fell := func(i, j int) float64 {
		if i%2 == 0 && j%2 == 1 {
			return 2.5
		}
		return 10
	}
	err := errors.Join(os.WriteFile(before, matrix(t, bigMap(12, 2, ten), now), 0o600), os.WriteFile(after, matrix(t, bigMap(12, 2, fell), now), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	_, out, errs := gridagent(t, "map", "diff", before, after)
	want := before + " → " + after + ": 36 of 132 pairs of hosts moved by more than 10%\n\n" +
		"FROM  TO  WHAT    ROSE  FELL  NEW  GONE  MEDIAN\nS0    S1  Mbit/s  0     36    0    0     10→2.5\n\n36 pairs of hosts: --all lists them\n"
	if out != want || errs != "" {
		t.Errorf("printed\n%s%s\nwant\n%s", out, errs, want)
	}
	_, out, _ = gridagent(t, "map", "diff", before, after, "--all")
	if strings.Count(out, "10→2.5") != 36 {
		t.Errorf("--all does not list the 36 pairs:\n%s", out)
	}
}

// TestMeasuringFormats reads the examples of docs/formats.md that the commands of measuring print.
func TestMeasuringFormats(t *testing.T) {
	doc, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	example := func(begin string) string {
		_, rest, _ := strings.Cut(string(doc), "\n"+begin)
		text, _, ok := strings.Cut(rest, "```")
		if !ok {
			t.Errorf("docs/formats.md has no example that begins with %s", begin)
		}
		return begin + text
	}
	if err := decodeKnown([]byte(example(`{"from":"epoch`)), new(diffJSON)); err != nil {
		t.Error(err)
	}
	if err := decodeKnown([]byte(example(`{"from":"ut0","to":"uk0","kinds"`)), new(probeJSON)); err != nil {
		t.Error(err)
	}
	rows, err := csv.NewReader(strings.NewReader(example("from,to,"))).ReadAll()
	if err != nil || len(rows) != 3 || !slices.Equal(rows[0], csvColumns) {
		t.Errorf("%q, %v; want the head %q", rows, err, csvColumns)
	}
}
