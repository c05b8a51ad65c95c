package identity

import (
	"fmt"
	"os"
)

// roomBytes is what the files of a folder take, seven blocks of a file system.
const roomBytes = 7 * 4096

// checkRoom returns an error unless the files of a cluster can be written to dir: a use of a token
// is spent when a seed answers, and what cannot be written then is lost.
func checkRoom(dir string) (err error) {
	f, err := os.CreateTemp(dir, ".room.*")
	if err != nil {
		return fmt.Errorf("directory for the cluster's files: %w", err)
	}
	defer func() {
		f.Close() // a second close fails and harms nothing
		os.Remove(f.Name())
		if err != nil {
			err = fmt.Errorf("directory %s has no room for the cluster's files: %w", dir, err)
		}
	}()
	if _, err := f.Write(make([]byte, roomBytes)); err != nil {
		return err
	}
	return f.Close() // where a quota or a network file system says it late
}
