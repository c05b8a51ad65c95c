package agent

import (
	"fmt"
	"strings"
	"testing"
)

// TestSizesForOtherRanks: sizes that do not fit the ranks are refused at once, not when all ranks are there.
func TestSizesForOtherRanks(t *testing.T) {
	t.Parallel()
	h := startHost(t, newCluster(t, "solo"), nil)
	_, out := post(t, httpClient(t, h, false), "Alltoall", `{"job":"j","rank":0,"ranks":2,"data":"QQ==","sizes":[1]}`)
	if out["code"] != "invalid_argument" || !strings.Contains(fmt.Sprint(out["message"]), "1 sizes of blocks for 2 ranks") {
		t.Errorf("%v", out)
	}
}
