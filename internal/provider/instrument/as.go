package instrument

import "github.com/egress-proxies/egress-proxies-operator/internal/provider"

// wrapper is implemented by every decorator.
type wrapper interface {
	Unwrap() provider.Provider
}

// As returns the outermost implementation of T in p and what p wraps. ok is false where there is none, also for a nil p.
func As[T any](p provider.Provider) (t T, ok bool) {
	for p != nil {
		if t, ok = p.(T); ok {
			return t, true
		}
		w, wraps := p.(wrapper)
		if !wraps {
			break
		}
		p = w.Unwrap()
	}
	return t, false
}
