package baseimage

// HeadSize and VirtualSize are the check of an image's beginning.
const HeadSize = headSize

func VirtualSize(format string, head []byte, length int64) (int64, error) {
	size, f := virtualSize(format, head, length)
	if f != nil {
		return size, f
	}
	return size, nil
}

// Wait blocks until no download runs.
func (c *Cache) Wait() { c.wg.Wait() }

// Received is how many bytes of a running download have come, -1 when none runs.
func (c *Cache) Received(img Image) int64 {
	t, _ := img.target()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[t]; e != nil && e.running != nil {
		return e.running.source.Load().bytes()
	}
	return -1
}
