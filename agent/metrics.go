package agent

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gridagent/gridagent/probe"
)

// metricsType is the text exposition format of Prometheus, version 0.0.4.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// A metric is a family of samples. Its help says what a value shows, and what it does not.
type metric struct {
	name, kind, help string // kind: counter or gauge
	samples          []metricSample
}

// A metricSample is one number, with labels as name, value, name, value …
type metricSample struct {
	labels []string
	value  float64
}

// one is a family of a single sample without labels.
func one[N int | int64 | uint64 | uint32 | float64](name, kind, help string, v N) metric {
	return metric{name, kind, help, []metricSample{{value: float64(v)}}}
}

// appendMetrics writes families in the text exposition format. Names, help and label names are
// our own; values of labels are whatever hosts call themselves, and escaped.
func appendMetrics(b []byte, families []metric) []byte {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	for _, m := range families {
		if len(m.samples) == 0 {
			continue
		}
		b = fmt.Appendf(b, "# HELP gridagent_%s %s\n# TYPE gridagent_%s %s\n", m.name, m.help, m.name, m.kind)
		for _, s := range m.samples {
			b = append(append(b, "gridagent_"...), m.name...)
			for i := 0; i+1 < len(s.labels); i += 2 {
				open := byte(',')
				if i == 0 {
					open = '{'
				}
				b = append(b, open)
				b = fmt.Appendf(b, `%s="%s"`, s.labels[i], escape.Replace(s.labels[i+1]))
			}
			if len(s.labels) > 1 {
				b = append(b, '}')
			}
			b = append(b, ' ')
			b = append(strconv.AppendFloat(b, s.value, 'g', -1, 64), '\n')
		}
	}
	return b
}

// metrics answers GET /metrics on the local API.
func (s *service) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", metricsType)
	w.Write(appendMetrics(nil, s.a.metrics(time.Now()))) // an error is the reader's own
}

// metrics returns what the agent counts.
func (a *Agent) metrics(now time.Time) []metric {
	out := append(a.mapMetrics(now), probeMetrics(a.prober.Stats(), a.prober.Cost())...)
	a.refused.mu.Lock()
	refused := a.refused.count
	a.refused.mu.Unlock()
	relief := a.engine.Relief()
	groups := make(map[string]int)
	for _, g := range a.groups.Status() {
		groups[g.State]++
	}
	return append(out,
		one("start_time_seconds", "gauge", "When the agent started, in seconds since 1970.", float64(a.started.UnixMilli())/1e3),
		one("refused_connections_total", "counter", "Connections that were refused: other clusters, strangers, expired tokens.", refused),
		one("refused_gossip_packets_total", "counter", "Gossip packets that this cluster's key does not open.", a.members.Stats().Refused),
		one("warnings", "gauge", "What gridagent status warns of, by number. Not 0: an operator should look.", len(a.Warnings())),
		one("exchange_replanned_total", "counter", "How often a link fell in an exchange and others took over a part of what this host had left. One that rises often shows links that change.", relief.Replanned),
		metric{"exchange_taken_over_bytes_total", "counter", "Bytes that hosts sent in place of others whose link had fallen.", []metricSample{
			{[]string{"by", "others"}, float64(relief.Given)}, {[]string{"by", "self"}, float64(relief.Helping)}}},
		one("exchange_detoured_bytes_total", "counter", "Bytes sent by way of a third host, as the straight way had fallen or was broken. One that rises for long shows hosts that do not reach each other.", relief.Detoured),
		counted("groups", "Groups with ranks here, by state.", "state", groups),
	)
}

// mapMetrics are those of membership, map and pool tree.
func (a *Agent) mapMetrics(now time.Time) []metric {
	members := make(map[string]int)
	for _, m := range a.members.Members() {
		members[m.State.String()]++
	}
	k := a.current()
	measured, predicted, total := coverage(k.snap)
	check := a.predictions.test(k, now)
	sent, received := a.mapSync.Bytes()
	out := []metric{
		counted("members", "Hosts that this one knows, by state.", "state", members),
		one("tunnels", "gauge", "TCP connections that carry datagrams, as UDP does not reach a host.", a.endpoint.Tunnels()),
		{"map_pairs", "gauge", "Ordered pairs of live hosts, by how their bandwidth is known. In large grids most are predicted by design.", []metricSample{
			{[]string{"known", "measured"}, float64(measured)}, {[]string{"known", "predicted"}, float64(predicted)},
			{[]string{"known", "no"}, float64(total - measured - predicted)}}},
		one("map_suspects", "gauge", "Hosts whose reports contradict those of others, which are believed instead.", len(a.netmap.Suspects(now))),
		{"map_bytes_total", "counter", "Bytes of messages that keep the map alike with other agents.", []metricSample{
			{[]string{"direction", "sent"}, float64(sent)}, {[]string{"direction", "received"}, float64(received)}}},
		one("pool_tree_epoch", "gauge", "Number of the pool tree since the start; one that rises often shows links that change, or noise.", a.pools.current().tree.Epoch),
		one("prediction_tested_pairs", "gauge", "Measured pairs that were predicted from the others for a test.", check.GetPairsTested()),
	}
	if check.GetPairsTested() > 0 {
		out = append(out, metric{"prediction_error_ratio", "gauge", "By how much those predictions were off, of the measured bandwidth.", []metricSample{
			{[]string{"quantile", "0.5"}, check.GetErrorMedian()}, {[]string{"quantile", "0.9"}, check.GetErrorP90()}}})
	}
	return out
}

// counted is a family of gauges, one for each state, by name.
func counted(name, help, label string, counts map[string]int) metric {
	m := metric{name: name, kind: "gauge", help: help}
	for state, n := range counts {
		m.samples = append(m.samples, metricSample{[]string{label, state}, float64(n)})
	}
	slices.SortFunc(m.samples, func(a, b metricSample) int { return cmp.Compare(a.labels[1], b.labels[1]) })
	return m
}

// probeMetrics are those of measuring.
func probeMetrics(s probe.Stats, c probe.Cost) []metric {
	sessions := func(kind string, n uint64) metricSample { return metricSample{[]string{"kind", kind}, float64(n)} }
	side := func(by string, n uint64) metricSample { return metricSample{[]string{"by", by}, float64(n)} }
	out := []metric{
		one("probe_bytes_total", "counter", "UDP payload of probes that this host sent; what it answers is not in it.", s.Bytes),
		{"probe_sessions_total", "counter", "Measurements that gave a result: rounds of pings, sessions of trains, bulk transfers with searches for capacity and LogP.", []metricSample{
			sessions("ping", s.Pings), sessions("train", s.Sessions), sessions("long", s.Bulks)}},
		one("probe_served_total", "counter", "Measurements of other hosts that this one took part in.", s.Served),
		{"probe_refused_total", "counter", "Measurements and leases that peers refused this host, or it them. Many are normal: turns are asked for.", []metricSample{
			side("peer", s.Refused), side("self", s.Declined)}},
		one("probe_failed_total", "counter", "Measurements that ended in an error.", s.Failed),
		one("probe_invalid_total", "counter", "Messages and values that no honest peer sends. Not 0: see the log.", s.Invalid),
		one("probe_strays_total", "counter", "Probe packets that belong to no train that was granted.", s.Strays),
		one("probe_hour_bytes", "gauge", "What this host sent of probes in the last hour.", c.LastHour),
		one("probe_hour_cap_bytes", "gauge", "What it may send in an hour; 0 is no cap.", c.HourlyCap),
		one("probe_share_ratio", "gauge", "Share of a link that probes may take in the long run.", c.Share),
		{name: "link_probe_hour_bytes", kind: "gauge", help: "Probes of all hosts over a link between sites in the last hour, as the link carries them; known to the host that keeps its budget."},
		{name: "link_bits_per_second", kind: "gauge", help: "What trains last read of such a link."},
	}
	hour, rate := &out[len(out)-2], &out[len(out)-1]
	for _, l := range c.Links {
		labels := []string{"from_site", l.From, "to_site", l.To}
		hour.samples = append(hour.samples, metricSample{labels, float64(l.LastHour)})
		if l.Capacity > 0 {
			rate.samples = append(rate.samples, metricSample{labels, 8 * float64(l.Capacity)})
		}
	}
	return out
}
