package lab

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// inFolder keeps the labs of a test in a folder of its own.
func inFolder(t *testing.T) {
	t.Helper()
	t.Setenv(envFolder, filepath.Join(t.TempDir(), "labs"))
}

func TestCreateAndRemove(t *testing.T) {
	inFolder(t)
	first, second := &Request{Name: "a", ID: "FIRST"}, &Request{Name: "a", ID: "SECOND"}
	if err := create(first); err != nil {
		t.Fatal(err)
	}
	if err := create(second); !errors.Is(err, errExists) {
		t.Errorf("created twice: %v", err)
	}
	if _, err := Read("a"); !errors.Is(err, ErrNotUp) {
		t.Errorf("read a lab that is being made: %v, want ErrNotUp", err)
	}
	if _, err := Read("b"); !errors.Is(err, ErrNoLab) {
		t.Errorf("read a lab that is not: %v, want ErrNoLab", err)
	}
	// A supervisor that ends late must not take the next lab of its name with it.
	if err := remove("a", second.ID); err != nil {
		t.Error(err)
	}
	if names, err := Names(); err != nil || len(names) != 1 {
		t.Errorf("labs %v, error %v; want a, which another lab's end has nothing to do with", names, err)
	}
	for range 2 { // the supervisor and Down both do it
		if err := remove("a", first.ID); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(base()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder for labs is left: %v", err)
	}
}

// Of all who make a lab of one name at once, one does; and the folder for labs comes and goes meanwhile.
func TestCreateConcurrently(t *testing.T) {
	inFolder(t)
	var holders, made atomic.Int32
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 50 {
				req := &Request{Name: "a", ID: string(rune('A' + i))}
				if err := create(req); errors.Is(err, errExists) {
					continue
				} else if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lab", n)
				}
				made.Add(1)
				holders.Add(-1)
				if err := remove("a", req.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if made.Load() == 0 {
		t.Error("nobody could make a lab")
	}
}

// Others could say in such a folder where programs run.
func TestFolderOfOthers(t *testing.T) {
	inFolder(t)
	if err := os.Mkdir(base(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := checkBase(); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(base(), 0o770); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"create": create(&Request{Name: "a", ID: "A"}),
		"Down":   Down(t.Context(), "a"),
	} {
		if err == nil || !strings.Contains(err.Error(), base()) {
			t.Errorf("%s: %v, want a refusal that names the folder", what, err)
		}
	}
	if err := os.Remove(base()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), base()); err != nil {
		t.Fatal(err)
	}
	if checkBase() == nil {
		t.Error("a symbolic link was followed")
	}
}

// Down clears away what a crash at any moment leaves.
func TestDownOfWhatIsLeft(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, dir string){
		"folder only":    func(t *testing.T, dir string) { put(t, dir, "", "") },
		"request":        func(t *testing.T, dir string) { put(t, dir, requestFile, `{"Name":"a","ID":"LEFT"}`) },
		"half a state":   func(t *testing.T, dir string) { put(t, dir, stateFile, `{"name`) },
		"half a request": func(t *testing.T, dir string) { put(t, dir, requestFile, `{"Na`) },
		"state of a process that is gone": func(t *testing.T, dir string) {
			put(t, dir, requestFile, `{"Name":"a","ID":"LEFT"}`)
			put(t, dir, stateFile, `{"name":"a","id":"LEFT","pid":1,"started":1,"hosts":[{"name":"h","inode":1}]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFolder(t)
			if err := Down(t.Context(), "a"); !errors.Is(err, ErrNoLab) {
				t.Errorf("down of nothing: %v, want ErrNoLab", err)
			}
			write(t, folder("a"))
			if err := Down(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(folder("a")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder is left: %v", err)
			}
		})
	}
}

// A supervisor that is still making its lab has told nobody its number; its mark gives it away.
func TestDownWhileUp(t *testing.T) {
	inFolder(t)
	req := &Request{Name: "a", ID: "TESTDOWNWHILEUP"}
	if err := create(req); err != nil {
		t.Fatal(err)
	}
	p := program(t, req.ID, "echo up; sleep 60 & wait")
	if err := Down(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if _, err := startOf(p.Pid); err == nil {
		t.Error("the supervisor lives on")
	}
}

// A supervisor that comes late must not serve, or take away, the next lab of its name.
func TestServeOfAnother(t *testing.T) {
	inFolder(t)
	if err := create(&Request{Name: "a", ID: "NEXT"}); err != nil {
		t.Fatal(err)
	}
	t.Setenv(envID, "LATE")
	err := serve(t.Context(), "a", func() error { t.Error("it says that it is ready"); return nil })
	if err == nil {
		t.Error("it served the request of another")
	}
	if req, err := readRequest("a"); err != nil || req.ID != "NEXT" {
		t.Errorf("the request is %+v now, error %v", req, err)
	}
}

func put(t *testing.T, dir, file, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if file == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
