package bubble

import (
	"encoding/json"
	"os"
	"testing"
)

// Serve calls do for each job that [Run] has for this test and sends its results back. Without
// Run it skips the test.
func Serve[J, R any](t *testing.T, do func(J) R) {
	t.Helper()
	path := os.Getenv(jobsVariable)
	if path == "" {
		t.Skip("run by a command, which hands it jobs")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []J
	if err := json.Unmarshal(data, &jobs); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(os.Getenv(resultsVariable), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, j := range jobs {
		line, err := json.Marshal(do(j))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
	}
}
