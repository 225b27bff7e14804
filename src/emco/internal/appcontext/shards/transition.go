package shards

// Standing is Status, for callers that still use the earlier name.
func (r *Runner) Standing() Status { return r.Status() }
