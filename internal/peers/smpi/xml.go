package smpi

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxBallast bounds the ballast links on one path. The number needed is about the
// ratio of the fastest link to the slowest: 1,000 of them are 1 Gbit/s beside 1 Mbit/s.
const maxBallast = 10_000

// A ballast makes the weight of a path heavier without limiting its flows: count links in a
// row, or the same one count times, all as fast as the slowest link of the path or faster.
type ballast struct {
	count int
	rate  float64 // bytes per second
}

// weights returns for every route the ballast that makes the sums of 1/rate equal.
func (p *Platform) weights() ([]ballast, error) {
	sum := make([]float64, len(p.routes))
	slowest := make([]float64, len(p.routes))
	heaviest := 0.0
	for r, route := range p.routes {
		slowest[r] = math.Inf(1)
		for _, l := range route {
			sum[r] += 1 / float64(p.links[l].rate)
			slowest[r] = min(slowest[r], float64(p.links[l].rate))
		}
		heaviest = max(heaviest, sum[r])
	}
	out := make([]ballast, len(p.routes))
	for r, route := range p.routes {
		lacks := heaviest - sum[r]
		if len(route) == 0 || lacks <= 1e-9*heaviest {
			continue
		}
		count := math.Ceil(lacks * slowest[r])
		if count > maxBallast {
			return nil, fmt.Errorf("smpi: equal shares need %.0f links of ballast on one path, more than %d: the rates differ too much", count, maxBallast)
		}
		out[r] = ballast{int(count), count / lacks}
	}
	return out, nil
}

// writeXML writes p as a platform file of SimGrid's version 4.1, with ballast if even is true
// (package documentation). The error is that of w, or of links whose rates differ too much for ballast.
func (p *Platform) writeXML(w io.Writer, even bool) error {
	pads := make([]ballast, len(p.routes))
	if even {
		var err error
		if pads, err = p.weights(); err != nil {
			return err
		}
	}
	out := bufio.NewWriter(w)
	fmt.Fprint(out, "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"+
		"<platform version=\"4.1\">\n<zone id=\"grid\" routing=\"Full\">\n")
	for _, h := range p.hosts {
		fmt.Fprintf(out, "  <host id=\"%s\" speed=\"1Gf\"/>\n", escape(h))
	}
	for _, l := range p.links {
		writeLink(out, l.id, float64(l.rate), l.latency.Seconds(), l.wide)
	}
	named := make(map[float64]string) // ballast links by rate
	for _, b := range pads {
		if b.count > 0 && named[b.rate] == "" {
			named[b.rate] = fmt.Sprintf("ballast-%d", len(named))
			writeLink(out, named[b.rate], b.rate, 0, true)
		}
	}
	n := len(p.hosts)
	for r, route := range p.routes {
		if r/n == r%n {
			continue // SimGrid's own loopback
		}
		fmt.Fprintf(out, "  <route src=\"%s\" dst=\"%s\" symmetrical=\"NO\">", escape(p.hosts[r/n]), escape(p.hosts[r%n]))
		for _, l := range route {
			fmt.Fprintf(out, "<link_ctn id=\"%s\"/>", escape(p.links[l].id))
		}
		fmt.Fprint(out, strings.Repeat(fmt.Sprintf("<link_ctn id=\"%s\"/>", named[pads[r].rate]), pads[r].count), "</route>\n")
	}
	fmt.Fprint(out, "</zone>\n</platform>\n")
	return out.Flush()
}

func writeLink(w io.Writer, id string, rate, latency float64, wide bool) {
	policy := "SHARED"
	if wide {
		policy = "FATPIPE"
	}
	fmt.Fprintf(w, "  <link id=\"%s\" bandwidth=\"%sBps\" latency=\"%ss\" sharing_policy=\"%s\"/>\n", escape(id), number(rate), number(latency), policy)
}

// number writes x so that it is read back as x.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// escape makes text fit for an attribute. Writing to a strings.Builder cannot fail.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}
