package agent

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A line of the text exposition format 0.0.4, as its description has it: comment or sample.
var (
	metricComment = regexp.MustCompile(`^# (HELP [a-zA-Z_:][a-zA-Z0-9_:]* [^\n]+|TYPE [a-zA-Z_:][a-zA-Z0-9_:]* (counter|gauge))$`)
	metricLine    = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-zA-Z_][a-zA-Z0-9_]*="(\\[\\"n]|[^\\"\n])*",?)+\})? (NaN|[+-]?[0-9.]+([eE][+-]?[0-9]+)?)$`)
)

// checkMetrics fails for what a scraper would refuse, and returns the samples by name and labels.
func checkMetrics(t *testing.T, text string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	family := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			family = strings.Fields(name)[0]
		}
		if metricComment.MatchString(line) {
			continue
		}
		m := metricLine.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("no line of the format: %q", line)
			continue
		}
		if m[1] != family {
			t.Errorf("%s stands under %s", m[1], family)
		}
		if _, twice := found[m[1]+m[2]]; twice {
			t.Errorf("%s%s comes twice", m[1], m[2])
		}
		found[m[1]+m[2]] = m[5]
	}
	return found
}

// TestProbeMetrics: what an agent counts of probes comes out under its name, and labels that hosts choose
// cannot break a line.
func TestProbeMetrics(t *testing.T) {
	got := checkMetrics(t, string(appendMetrics(nil, probeMetrics(
		probe.Stats{Pings: 1, Sessions: 2, Served: 3, Refused: 4, Declined: 5, Failed: 6, Invalid: 7, Strays: 8, Bulks: 9, Bytes: 10 << 30},
		probe.Cost{Share: 0.01, HourlyCap: 256 << 20, LastHour: 5, Links: []probe.LinkCost{
			{From: "a", To: "b \"x\"\n\\", Capacity: netmap.Mbps, LastHour: 100}, {From: "a", To: "c"}}},
	))))
	for name, want := range map[string]string{
		`probe_bytes_total`: "1.073741824e+10", `probe_sessions_total{kind="ping"}`: "1", `probe_sessions_total{kind="train"}`: "2",
		`probe_sessions_total{kind="long"}`: "9", `probe_served_total`: "3", `probe_refused_total{by="peer"}`: "4", `probe_refused_total{by="self"}`: "5",
		`probe_failed_total`: "6", `probe_invalid_total`: "7", `probe_strays_total`: "8", `probe_hour_bytes`: "5",
		`probe_hour_cap_bytes`: "2.68435456e+08", `probe_share_ratio`: "0.01",
		`link_probe_hour_bytes{from_site="a",to_site="b \"x\"\n\\"}`: "100", `link_probe_hour_bytes{from_site="a",to_site="c"}`: "0",
		`link_bits_per_second{from_site="a",to_site="b \"x\"\n\\"}`: "1e+06",
	} {
		if got["gridagent_"+name] != want {
			t.Errorf("%s is %q, want %s", name, got["gridagent_"+name], want)
		}
		delete(got, "gridagent_"+name)
	}
	if len(got) > 0 {
		t.Errorf("not expected: %v", got)
	}
	if b := appendMetrics(nil, []metric{{name: "x", kind: "gauge", help: "h"}}); len(b) > 0 {
		t.Errorf("a family without samples: %q", b)
	}
}

// TestMetricsEndPoint scrapes an agent over its socket.
func TestMetricsEndPoint(t *testing.T) {
	t.Parallel()
	h := startHost(t, newCluster(t, "solo"), nil)
	resp, err := httpClient(t, h, false).Get("http://gridagent/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != metricsType {
		t.Fatalf("%s %q: %v", resp.Status, resp.Header.Get("Content-Type"), err)
	}
	got := checkMetrics(t, string(b))
	for _, name := range []string{"probe_bytes_total", `map_pairs{known="measured"}`, "map_suspects", "warnings", "pool_tree_epoch", "refused_connections_total", "prediction_tested_pairs"} {
		if got["gridagent_"+name] == "" {
			t.Errorf("no %s in\n%s", name, b)
		}
	}
}

// TestPredictionCheck: the test of predictions is made anew for another map, but not for each call.
func TestPredictionCheck(t *testing.T) {
	known := func(third netmap.BytesPerSec) *knownMap {
		hosts := []netmap.Host{{Name: "a", Site: "X"}, {Name: "b", Site: "X"}, {Name: "c", Site: "Y"}}
		est := make([]netmap.Estimate, 9)
		for i, rate := range map[int]netmap.BytesPerSec{2: 10 * netmap.Mbps, 5: third} { // a→c, b→c
			est[i] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: time.Millisecond, Bandwidth: rate, Source: netmap.SourceProbed}
		}
		return &knownMap{snap: netmap.NewSnapshot(1, hosts, est)}
	}
	var c predictionCheck
	now := time.Unix(1e9, 0)
	first := known(10 * netmap.Mbps)
	if got := c.test(first, now); got.GetPairsTested() != 2 || got.GetErrorP90() != 0 {
		t.Errorf("two equal pairs: %v", got)
	}
	second := known(20 * netmap.Mbps)
	if got := c.test(second, now.Add(checkEvery/2)); got.GetErrorP90() != 0 {
		t.Errorf("tested again after %v: %v", checkEvery/2, got)
	}
	got := c.test(second, now.Add(checkEvery))
	if got.GetErrorMedian() != 0.5 || fmt.Sprint(got.GetErrorP90()) != "0.5" { // 10 for 20; the other, 20 for 10, is above nine of ten
		t.Errorf("10 and 20 Mbit/s: %v", got)
	}
}
