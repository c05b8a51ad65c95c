package group

// Group names the rank's group, as a [Request] and [Finished] do.
func (r *Rank) Group() ID { return r.m.id }
