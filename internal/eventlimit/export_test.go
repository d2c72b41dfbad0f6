package eventlimit

// Kept returns how many buckets have a place in memory.
func (r *Recorder) Kept() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.objects.fullAt) + len(r.reasons.fullAt) + len(r.global.fullAt)
}
