package health

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"sync"
)

// maxRoots bounds the pools kept; with more bundles in use than that some are parsed anew for each probe.
const maxRoots = 64

var errNoCertificate = errors.New("the health check's caBundle holds no PEM certificate")

// rootsCache keeps the pools made of CA bundles: parsing one costs more than a handshake.
type rootsCache struct {
	mu    sync.Mutex
	pools map[[sha256.Size]byte]*x509.CertPool
}

// get returns the system's roots and those of bundle; nil, which means the system's, for an empty bundle.
func (c *rootsCache) get(bundle []byte) (*x509.CertPool, error) {
	if len(bundle) == 0 {
		return nil, nil
	}
	sum := sha256.Sum256(bundle)
	c.mu.Lock()
	defer c.mu.Unlock()
	if pool := c.pools[sum]; pool != nil {
		return pool, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		// An image without system roots still has the bundle.
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, errNoCertificate
	}
	if c.pools == nil || len(c.pools) >= maxRoots {
		c.pools = map[[sha256.Size]byte]*x509.CertPool{}
	}
	c.pools[sum] = pool
	return pool, nil
}
