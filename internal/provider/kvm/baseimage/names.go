package baseimage

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ready is what a marker's name has more than its data's.
const ready = ".ready"

// names makes and reads the names of volumes.
type names struct {
	prefix string
	// data is the form of a data volume's name, any that of both kinds in the midst of a text.
	data, any *regexp.Regexp
}

func newNames(prefix string) names {
	const rest = `([0-9a-f]{64})\.([0-9]{12})\.[0-9a-f]{8}\.(qcow2|raw)`
	p := regexp.QuoteMeta(prefix)
	return names{prefix, regexp.MustCompile("^" + p + rest + "$"), regexp.MustCompile(p + rest + "(" + regexp.QuoteMeta(ready) + ")?")}
}

// new returns a name for data that is not among those given.
func (n names) new(t target, start time.Time, taken []Volume) string {
	for {
		var random [4]byte
		_, _ = rand.Read(random[:]) // it never fails
		name := fmt.Sprintf("%s%s.%012d.%s.%s", n.prefix, t.sum, start.Unix(), hex.EncodeToString(random[:]), t.format)
		if !slices.ContainsFunc(taken, func(v Volume) bool { return v.Name == name }) {
			return name
		}
	}
}

// read returns what a data volume is for and when its download began; false for any other volume.
func (n names) read(name string) (target, time.Time, bool) {
	m := n.data.FindStringSubmatch(name)
	if m == nil {
		return target{}, time.Time{}, false
	}
	seconds, err := strconv.ParseInt(m[2], 10, 64)
	return target{m[1], m[3]}, time.Unix(seconds, 0), err == nil
}

// hide takes names out of a text: they differ from one download to the next.
func (n names) hide(s string) string { return n.any.ReplaceAllString(s, "…") }

// marks tells the markers of a target's copies by their names.
func (n names) marks(t target) func(name string) bool {
	return func(name string) bool {
		data, marker := strings.CutSuffix(name, ready)
		of, _, ok := n.read(data)
		return marker && ok && of == t
	}
}

// published returns the copy that counts: of those with data and marker, the one whose name sorts first.
func (n names) published(volumes []Volume, t target) (Base, bool) {
	sizes := map[string]int64{}
	for _, v := range volumes {
		sizes[v.Name] = v.Capacity
	}
	var first Base
	for _, v := range volumes {
		of, _, ok := n.read(v.Name)
		size := sizes[v.Name+ready]
		if ok && of == t && size > 0 && (first.Volume == "" || v.Name < first.Volume) {
			first = Base{Volume: v.Name, Format: t.format, VirtualSize: size}
		}
	}
	return first, first.Volume != ""
}

// unfinished returns the data volumes of a checksum that have no marker, oldest first, whatever their format.
func (n names) unfinished(volumes []Volume, sum string) (out []string) {
	marked := map[string]bool{}
	for _, v := range volumes {
		if data, ok := strings.CutSuffix(v.Name, ready); ok {
			marked[data] = true
		}
	}
	for _, v := range volumes {
		if of, _, ok := n.read(v.Name); ok && of.sum == sum && !marked[v.Name] {
			out = append(out, v.Name)
		}
	}
	slices.Sort(out)
	return out
}

// abandoned reports whether nobody can be writing the data any more, by its name.
func (n names) abandoned(name string, now time.Time) bool {
	_, start, ok := n.read(name)
	return ok && now.Sub(start) > Abandoned
}

func has(volumes []Volume, name string) bool {
	return slices.ContainsFunc(volumes, func(v Volume) bool { return v.Name == name })
}
