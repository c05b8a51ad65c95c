package membership

import (
	"bytes"
	"context"
	"log"
	"log/slog"
)

// newLibraryLog returns the logger that memberlist writes to. Its lines become
// records with the line as attribute. Levels fall by one: what memberlist calls an
// error (a state exchange that failed) is daily bread on a WAN, and what an operator
// must know (joined, failed, left, refused, conflict) this package says itself.
//
// Once ended is closed nothing is said any more: the library's suspicion timers fire
// for some seconds after its shutdown.
func newLibraryLog(to *slog.Logger, ended <-chan struct{}) *log.Logger {
	return log.New(libraryLog{to, ended}, "", 0)
}

type libraryLog struct {
	to    *slog.Logger
	ended <-chan struct{}
}

func (l libraryLog) Write(line []byte) (int, error) {
	select {
	case <-l.ended:
		return len(line), nil
	default:
	}
	level, text := parseLine(line)
	l.to.Log(context.Background(), level, "memberlist", "event", text)
	return len(line), nil
}

// parseLine splits "[WARN] memberlist: text" into level and text.
func parseLine(line []byte) (slog.Level, string) {
	level := slog.LevelDebug
	rest := bytes.TrimSpace(line)
	if word, after, ok := bytes.Cut(rest, []byte("] ")); ok && len(word) > 0 && word[0] == '[' {
		switch string(word[1:]) {
		case "ERR", "ERROR":
			level = slog.LevelInfo
		}
		rest = after
	}
	rest = bytes.TrimPrefix(rest, []byte("memberlist: "))
	return level, string(rest)
}
