package images

import (
	"fmt"
	"path"
	"regexp"
	"time"
)

// Stamp says from which sources an image is. What is empty is not said.
type Stamp struct {
	// Version is the tag of the image, too.
	Version string
	// Revision is the commit, Date its date in RFC 3339. Of the commit, not of the build: the same sources give the same image.
	Revision, Date string
}

// tagged is what a registry takes for a tag. It also keeps blanks out of the linker's flags.
var tagged = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

func (s Stamp) check() error {
	for name, value := range map[string]string{"version": s.Version, "revision": s.Revision} {
		if value != "" && !tagged.MatchString(value) {
			return fmt.Errorf("%s %q: 1 to 128 letters, digits, '_', '.' and '-', beginning with no '.' or '-'", name, value)
		}
	}
	if _, err := s.created(); err != nil {
		return fmt.Errorf("date %q: no date and time in RFC 3339", s.Date)
	}
	return nil
}

// created is when the sources were committed, the beginning of Unix's time where nobody knows.
func (s Stamp) created() (time.Time, error) {
	if s.Date == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339, s.Date)
	return t.UTC(), err
}

// ldflags tell the programs.
func (s Stamp) ldflags() (out string) {
	for _, v := range [][2]string{{"version", s.Version}, {"revision", s.Revision}, {"date", s.Date}} {
		if v[1] != "" {
			out += " -X " + path.Join(module, "internal/version") + "." + v[0] + "=" + v[1]
		}
	}
	return out
}

// labels are those of the OCI image specification.
func (s Stamp) labels() map[string]string {
	const at = "org.opencontainers.image."
	out := map[string]string{
		at + "title":         OperatorName,
		at + "description":   "Declares, provisions, probes and leases egress proxies for crawlers.",
		at + "licenses":      "Apache-2.0",
		at + "url":           "https://" + module,
		at + "source":        "https://" + module,
		at + "documentation": "https://" + module + "/blob/main/README.md",
	}
	for name, value := range map[string]string{"version": s.Version, "revision": s.Revision, "created": s.Date} {
		if value != "" {
			out[at+name] = value
		}
	}
	return out
}
