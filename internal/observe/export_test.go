package observe

// Told returns how many changes are kept.
func (o *Observer) Told() (n int) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, byID := range o.told {
		n += len(byID)
	}
	return n
}
