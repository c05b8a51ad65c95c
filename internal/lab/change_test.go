package lab

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// emulatedLab is a lab without a kernel's part: its links between sites lead nowhere and can be changed.
func emulatedLab(t *testing.T, name string) *Lab {
	t.Helper()
	spec := parseBuiltIn(t, name, 0)
	n, err := gridnet.New(*spec.WAN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return &Lab{spec: spec, wan: &forwarder{net: n}, cut: make(map[Link]bool)}
}

func (l *Lab) linkNow(t *testing.T, from, to string) gridnet.Link {
	t.Helper()
	g, err := l.wan.net.Link(from, to)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A change of both directions that one of them cannot take changes neither.
func TestChangeOfBothIsAllOrNothing(t *testing.T) {
	l := emulatedLab(t, "modern-4site")
	before, back := l.linkNow(t, "FRA", "IAD"), l.linkNow(t, "IAD", "FRA")
	flow := 90e6 / 8 // FRA→IAD has 100 Mbit/s, the way back 80
	err := l.Change(Link{"FRA", "IAD"}, true, Change{Bandwidth: &flow})
	if err == nil || !strings.Contains(err.Error(), "IAD→FRA") {
		t.Errorf("error %v; want one that names IAD→FRA", err)
	}
	if now := l.linkNow(t, "FRA", "IAD"); now != before {
		t.Errorf("FRA→IAD is %+v, and was %+v", now, before)
	}
	if err := l.Change(Link{"FRA", "IAD"}, false, Change{Bandwidth: &flow}); err != nil {
		t.Error(err)
	}
	if now := l.linkNow(t, "FRA", "IAD"); float64(now.FlowRate) != flow {
		t.Errorf("FRA→IAD has a ceiling of %v bytes/s, want %v", float64(now.FlowRate), flow)
	}
	if now := l.linkNow(t, "IAD", "FRA"); now != back {
		t.Errorf("one way, and IAD→FRA is %+v, and was %+v", now, back)
	}
	late := -time.Millisecond
	if err := l.Change(Link{"FRA", "IAD"}, true, Change{Latency: &late}); err == nil {
		t.Error("a latency below zero was taken")
	}
}

func TestCutOfALink(t *testing.T) {
	l := emulatedLab(t, "paper-3site")
	if err := l.Cut(Link{"UT", "UK"}, true, true); err != nil {
		t.Fatal(err)
	}
	if err := l.Cut(Link{"UK", "UT"}, false, false); err != nil {
		t.Fatal(err)
	}
	if !l.cut[Link{"UT", "UK"}] || l.cut[Link{"UK", "UT"}] {
		t.Errorf("cut are %v, want UT→UK only", l.cut)
	}
	for _, wrong := range []Link{{"UT", "UT"}, {"UT", "XX"}, {"ut0", "uk0"}, {"nobody", ""}, {"", ""}} {
		if err := l.Cut(wrong, true, true); err == nil || !strings.Contains(err.Error(), "UT UK") {
			t.Errorf("cut %v: %v; want an error that lists the links", wrong, err)
		}
	}
}

func TestHandlerRefuses(t *testing.T) {
	l := emulatedLab(t, "paper-3site")
	server := httptest.NewServer(l.handler())
	defer server.Close()
	post := func(path, body string) int {
		resp, err := http.Post(server.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, body := range []string{"", "{", `{"lnk":{}}`, `{"link":{"from":"XX","to":"UK"},"change":{"loss":0.5}}`,
		`{"link":{"from":"UT","to":"UK"},"change":{"loss":2}}`} {
		if got := post("/set", body); got != http.StatusBadRequest {
			t.Errorf("set %.60s: status %d, want 400", body, got)
		}
	}
	if got := post("/set", `{"link":{"from":"UT","to":"UK"},"both":true,"change":{"loss":0.5}}`); got != http.StatusOK {
		t.Errorf("set: status %d", got)
	}
	if got := l.linkNow(t, "UK", "UT").Loss; got != 0.5 {
		t.Errorf("loss of UK→UT is %v, want 0.5", got)
	}
	l.checking.Lock()
	defer l.checking.Unlock()
	if got := post("/check", ""); got != http.StatusConflict {
		t.Errorf("a second check: status %d, want 409", got)
	}
}

// Of a link with a token bucket, the capacity and what all flows share are the bucket's rate, which stays under that of bursts.
func TestChangeOfBursts(t *testing.T) {
	g := gridnet.Link{Rate: 40, ShapeRate: 4, ShapeBurst: 10000}
	for _, tt := range []struct {
		bandwidth, capacity float64 // 0: not given
		flow, shape         gridnet.Rate
	}{
		{0, 8, 4, 8},
		{2, 0, 2, 8},
		{6, 6, 0, 6},
		{3, 0, 0, 3},
	} {
		var c Change
		if tt.bandwidth > 0 {
			c.Bandwidth = &tt.bandwidth
		}
		if tt.capacity > 0 {
			c.Capacity = &tt.capacity
		}
		if err := c.apply(&g); err != nil {
			t.Fatal(err)
		}
		if g.Rate != 40 || g.ShapeRate != tt.shape || g.FlowRate != tt.flow {
			t.Errorf("%+v: bursts at %v, %v together, a flow %v; want 40, %v, %v", tt, g.Rate, g.ShapeRate, g.FlowRate, tt.shape, tt.flow)
		}
	}
	most := 40.
	if err := (&Change{Capacity: &most}).apply(&g); err == nil {
		t.Error("a capacity of what bursts pass at was taken")
	}
}
