package main

import (
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progressDelay is how long an operation runs before a bar appears: shorter ones would
// only flicker.
const progressDelay = 2 * time.Second

// A progressBar shows how far an operation is. Its methods may be called concurrently.
type progressBar struct {
	terminal *os.File

	mu      sync.Mutex // guards the fields below
	begin   time.Time  // of the first update
	bars    *mpb.Progress
	bar     *mpb.Bar
	stopped bool
}

// progressBar returns a bar on standard error, or nil if that is no terminal or off is set.
func (a *app) progressBar(off bool) *progressBar {
	f, ok := a.err.(*os.File)
	if off || !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &progressBar{terminal: f}
}

// update shows that done of total bytes have come.
func (p *progressBar) update(done, total uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped || total == 0:
		return
	case p.begin.IsZero():
		p.begin = time.Now()
	}
	if p.bar == nil {
		if time.Since(p.begin) < progressDelay {
			return
		}
		p.bars = mpb.New(mpb.WithOutput(p.terminal), mpb.WithRefreshRate(200*time.Millisecond))
		p.bar = p.bars.AddBar(int64(total),
			mpb.PrependDecorators(decor.CountersKibiByte("% .1f / % .1f")),
			mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageETA(decor.ET_STYLE_GO)),
			mpb.BarRemoveOnComplete())
		p.bar.DecoratorAverageAdjust(p.begin)
	}
	p.bar.SetCurrent(int64(min(done, total)))
}

// stop takes the bar away, whole or not, and gives the terminal back.
func (p *progressBar) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
	}
}
