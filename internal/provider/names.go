package provider

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// NameFromUID returns the name of a Proxy's instance: "proxy-" and 16 characters of base32, 80 bits of the UID's hash.
// It is legal as a DNS label, a Compute Engine name and a libvirt domain name, and the same for every attempt.
func NameFromUID(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return "proxy-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// NamedFor reports whether id is one under which this operator creates the instance of uid: its last element is
// NameFromUID(uid). What carries that UID under another name is a copy that somebody made of an instance with its marks.
func NamedFor(id, uid string) bool {
	return id[strings.LastIndexByte(id, '/')+1:] == NameFromUID(uid)
}

// CreateToken returns the idempotency token of one attempt: a UUIDv5 of the UID and the attempt.
func CreateToken(uid string, attempt int64) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("egress-proxies-operator/create/"+uid+"/"+strconv.FormatInt(attempt, 10))).String()
}
