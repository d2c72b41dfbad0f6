package filewatch

import (
	"crypto/sha256"
	"time"
)

// sight is what one look at a file showed: a content, or why there is none.
type sight struct {
	hash   [sha256.Size]byte
	failed string
}

func sightOf(data []byte, err error) sight {
	if err != nil {
		return sight{failed: err.Error()}
	}
	return sight{hash: sha256.Sum256(data)}
}

// look decides which sights are told.
type look struct {
	settle time.Duration
	told   sight
	// last is what was seen last and when it was seen first, if it differs from what was told.
	last  sight
	since time.Time
}

// at takes in what was seen at a time. wait is after how long to look again, 0 for no sooner than something happens.
func (l *look) at(s sight, now time.Time) (wait time.Duration, tell bool) {
	if s == l.told {
		l.since = time.Time{}
		return 0, false
	}
	if s != l.last || l.since.IsZero() {
		l.last, l.since = s, now
	}
	if wait := l.since.Add(l.settle).Sub(now); wait > 0 {
		return wait, false
	}
	l.told, l.since = s, time.Time{}
	return 0, true
}
