package exchange

// leading returns what is called with how many bytes of chunk i of b have been read. It lets go what waits for the
// chunk's transfer as soon as no more than the part's lead is missing of it, which may be in the middle of a chunk,
// and calls part, unless that is nil, as was done without a lead. A second copy of a chunk counts for nothing.
func (x *run) leading(b *block, i int, part func(bytes int) error) func(bytes int) error {
	size, told := b.size(i, x.part.Chunk), false
	return func(bytes int) error {
		if !told && int64(size-bytes) <= x.part.Lead { // else more than the lead is missing in any case
			x.mu.Lock()
			r := b.recv
			if told = r.told || b.have.has(i); !told && r.missing-int64(bytes) <= x.part.Lead { // missing holds this chunk until it is whole
				told = true
				x.tellOf(r)
			}
			x.mu.Unlock()
		}
		if part == nil {
			return nil
		}
		return part(bytes)
	}
}
