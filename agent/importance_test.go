package agent

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestImportance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		hosts := []string{"b"}
		i := &importance{hosts: func() []string { asked++; return hosts }}
		check := func(to string, want float64) {
			t.Helper()
			if got := i.of("a", to); got != want {
				t.Errorf("%s weighs %v, want %v", to, got, want)
			}
		}
		check("b", importantWeight)
		check("c", 1)
		hosts = []string{"c"}
		check("b", importantWeight) // not looked at yet
		time.Sleep(2 * importantAge)
		check("b", 1)
		check("c", importantWeight)
		if asked != 2 {
			t.Errorf("groups were asked %d times for 5 answers, want 2", asked)
		}
	})
}
