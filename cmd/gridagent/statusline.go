package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// A statusLine shows on a terminal what a command of several stages is doing. Without a
// terminal it shows nothing.
type statusLine struct {
	terminal *os.File // nil shows nothing

	mu    sync.Mutex // guards the fields below
	stage string
	bars  *mpb.Progress
	bar   *mpb.Bar
}

func (a *app) statusLine(off bool) *statusLine {
	f, ok := a.err.(*os.File)
	if off || !ok || !term.IsTerminal(int(f.Fd())) {
		return &statusLine{}
	}
	return &statusLine{terminal: f}
}

// show says what is being done, and how much of it; 0 of 0 means that this is not known.
func (s *statusLine) show(stage string, done, total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal == nil {
		return
	}
	if s.bar == nil || s.stage != stage {
		s.clearLocked()
		s.stage = stage
		s.bars = mpb.New(mpb.WithOutput(s.terminal), mpb.WithRefreshRate(200*time.Millisecond))
		elapsed := decor.Elapsed(decor.ET_STYLE_GO)
		if total == 0 {
			s.bar = s.bars.New(0, mpb.SpinnerStyle(), mpb.BarRemoveOnComplete(),
				mpb.PrependDecorators(decor.Name(stage+" ")), mpb.AppendDecorators(elapsed))
		} else {
			s.bar = s.bars.AddBar(int64(total)+1, mpb.BarRemoveOnComplete(), // never full: the next stage takes it away
				mpb.PrependDecorators(decor.Name(stage+" "), decor.Any(func(st decor.Statistics) string {
					return fmt.Sprintf("%d%%", 100*st.Current/(st.Total-1))
				})), mpb.AppendDecorators(elapsed))
		}
	}
	if total > 0 {
		s.bar.SetCurrent(int64(min(done, total)))
	}
}

// working says that stage is being done, from progressDelay on, until the function that it
// returns is called: before anything is printed.
func (s *statusLine) working(stage string) (done func()) {
	var mu sync.Mutex // guards over, and a show that has begun
	over := false
	timer := time.AfterFunc(progressDelay, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			s.show(stage, 0, 0)
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
		s.clear()
	}
}

// clear takes the line away so that something can be printed; the next show brings it back.
func (s *statusLine) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
}

func (s *statusLine) clearLocked() {
	if s.bar != nil {
		s.bar.Abort(true)
		s.bars.Wait()
		s.bar = nil
	}
}

// stop takes the line away for good.
func (s *statusLine) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
	s.terminal = nil
}
