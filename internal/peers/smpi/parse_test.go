package smpi

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const good = "[host] warning\ngridagent-smpi ranks=20 wrong=0 seconds=9.539573\n"
	for _, tt := range []struct {
		name, text string
		want       float64
		err        string
	}{
		{"good", good, 9.539573, ""},
		{"nothing", "", 0, "0 results"},
		{"twice", good + good, 0, "2 results"},
		{"other ranks", strings.Replace(good, "=20", "=19", 1), 0, "19 ranks"},
		{"wrong data", strings.Replace(good, "wrong=0", "wrong=3", 1), 0, "3 blocks"},
		{"no number", strings.Replace(good, "9.5", "9.5.", 1), 0, "9.5.39573"},
		{"SimGrid's words", "[a:0:(1) 0.0] ./x.cpp:261: [root/CRITICAL] no algorithm 'x'!\nAborted\n", 0, "no algorithm 'x'!"},
		{"an exception", "[a:0:(1) 0.0] ./x.cpp:48: [xbt_exception/CRITICAL] Uncaught exception std::invalid_argument: power of two\nmore", 0, "results, want one: power of two"},
		{"long", strings.Repeat("é", 1000), 0, "…é"},
	} {
		got, err := parseSeconds(tt.text, 20)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
	if v, err := parseVersion("SimGrid version 3.32\nCopyright"); v != "3.32" || err != nil {
		t.Errorf("version %q, %v", v, err)
	}
	if _, err := parseVersion("smpirun"); err == nil {
		t.Error("a version where there is none")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("gridagent-smpi ranks=2 wrong=0 seconds=1.5\n")
	f.Add("[x/CRITICAL] y\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSeconds(text, 2)
		if err != nil {
			if len(err.Error()) > 1000+len(text) {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if !(s >= 0) || !strings.Contains(text, "gridagent-smpi ranks=2 wrong=0 seconds=") {
			t.Errorf("%v s of %q", s, text)
		}
	})
}

func TestModels(t *testing.T) {
	for _, m := range []Model{Even, TCP} {
		if got, err := ParseModel(string(m)); got != m || err != nil {
			t.Errorf("%s: %v, %v", m, got, err)
		}
	}
	if _, err := ParseModel("LV08"); err == nil || !strings.Contains(err.Error(), `"LV08"`) {
		t.Errorf("an unknown model: %v", err)
	}
}
