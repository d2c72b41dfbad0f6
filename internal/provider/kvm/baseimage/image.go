package baseimage

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Formats of images.
const (
	QCOW2 = "qcow2"
	Raw   = "raw"
)

// Image is what is to be in the pool.
type Image struct {
	// Name is what messages call it.
	Name string
	// URL has the scheme http or https. User, password and query are never shown.
	URL string
	// SHA256 of what is downloaded, 64 hexadecimal digits in upper or lower case.
	SHA256 string
	// Format is QCOW2 or Raw.
	Format string
}

// Base is a published image.
type Base struct {
	// Volume is the name of the volume in the pool.
	Volume string
	// Format is QCOW2 or Raw.
	Format string
	// VirtualSize is how large the disk is that a VM sees, in bytes.
	VirtualSize int64
}

// target is what a download is for. The format belongs to it: an image verified as one is not the same as the other.
type target struct{ sum, format string }

var checksum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// target checks checksum and format.
func (i Image) target() (target, *Failure) {
	t := target{strings.ToLower(i.SHA256), i.Format}
	if !checksum.MatchString(t.sum) {
		return target{}, fail(provider.ErrPermanent, "the checksum is not 64 hexadecimal digits").of(i)
	}
	if t.format != QCOW2 && t.format != Raw {
		return target{}, fail(provider.ErrPermanent, "the format %q is neither qcow2 nor raw", t.format).of(i)
	}
	return t, nil
}

// location checks the URL. What cannot be parsed is not shown: nobody knows where in it the password is.
func (i Image) location() (*url.URL, *Failure) {
	u, err := url.Parse(i.URL)
	switch {
	case err != nil || u.Host == "":
		return nil, fail(provider.ErrPermanent, "the URL is not valid").of(i)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fail(provider.ErrPermanent, "the URL's scheme is neither http nor https").of(i)
	}
	return u, nil
}

// shown is a URL without what may be secret.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
