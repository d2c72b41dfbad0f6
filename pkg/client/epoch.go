package client

// observe takes in the epoch that an answer to request number speaks of. When it is another than before, every lease of
// the one before is lost at once.
func (c *Client) observe(epoch string, number uint64) {
	for _, l := range c.turn(epoch, number) {
		l.lose(ErrEpochChanged)
	}
}

// turn returns the leases that epoch makes an end of.
func (c *Client) turn(epoch string, number uint64) []*Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case epoch == c.epoch:
		return nil
	case epoch == c.before && number <= c.epochSince:
		// Sent before the change was known, and answered by the ledger before it: this is the past, not a way back.
		return nil
	}
	c.before, c.epoch, c.epochSince = c.epoch, epoch, c.sent
	var gone []*Lease
	for l := range c.leases {
		if l.epoch != epoch {
			gone = append(gone, l)
		}
	}
	return gone
}

// register makes l one of the client's leases and begins its renewal. It fails when the client was closed meanwhile, or
// the lease's epoch is over.
func (c *Client) register(l *Lease) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closing:
		return ErrClosed
	case l.epoch != c.epoch:
		return ErrEpochChanged
	}
	c.leases[l] = struct{}{}
	c.wg.Add(1)
	l.start()
	return nil
}

func (c *Client) unregister(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leases, l)
}
