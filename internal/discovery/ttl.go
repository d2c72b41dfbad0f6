package discovery

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// wholeNumber reads member, whose raw value is raw; present is false when it is absent or null. A number that is whole
// but does not fit comes back as an extreme of int64, so that the caller's bounds refuse it.
func wholeNumber(member string, raw jsontext.Value) (n int64, present bool, failure *apiError) {
	if len(raw) == 0 || raw.Kind() == 'n' {
		return 0, false, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false, invalid("member /%s must be a whole number without fraction and exponent", member)
	}
	return n, true, nil
}

// ttl returns the duration asked for, or the default. The bounds are checked on the number itself: as a duration it
// could have overflowed into them.
func (s *Server) ttl(raw jsontext.Value) (time.Duration, *apiError) {
	n, present, failure := wholeNumber("ttlSeconds", raw)
	if failure != nil {
		return 0, failure
	}
	if !present {
		return s.o.TTL, nil
	}
	if most := int64(s.o.MaxTTL / time.Second); n < 1 || n > most {
		return 0, &apiError{http.StatusBadRequest, "ttl_out_of_range", "ttlSeconds must be between 1 and " + strconv.FormatInt(most, 10)}
	}
	return time.Duration(n) * time.Second, nil
}
