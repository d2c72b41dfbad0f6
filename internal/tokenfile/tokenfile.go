// Package tokenfile reads the principals of the discovery API and their tokens from a file.
package tokenfile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/egress-proxies/egress-proxies-operator/internal/discovery"
	"github.com/egress-proxies/egress-proxies-operator/internal/filewatch"
)

// Bounds of a file.
const (
	maxBytes      = 1 << 20
	maxEntries    = 1000
	minToken      = 16
	maxToken      = 512
	maxNamespaces = 100
	maxAttributes = 32
)

// entry is one principal as the file has it.
type entry struct {
	Name       string            `json:"name"`
	Token      string            `json:"token"`
	Namespaces []string          `json:"namespaces"`
	Selector   map[string]string `json:"selector"`
}

type byHash map[[sha256.Size]byte]discovery.Principal

// parse reads the file's content. Errors name entries and members, never a token.
func parse(data []byte) (byHash, error) {
	raw, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, errors.New("it is not valid YAML, or a key appears twice") // the text of err may quote a token
	}
	var file struct {
		Tokens []entry `json:"tokens"`
	}
	if err := json.Unmarshal(raw, &file, json.RejectUnknownMembers(true)); err != nil {
		var semantic *json.SemanticError
		if errors.As(err, &semantic) {
			return nil, fmt.Errorf("%s: unknown member or wrong type", place(semantic.JSONPointer))
		}
		return nil, errors.New("it is not valid")
	}
	if len(file.Tokens) == 0 || len(file.Tokens) > maxEntries {
		return nil, fmt.Errorf("tokens: %d entries, want 1 to %d", len(file.Tokens), maxEntries)
	}
	out, names := byHash{}, map[string]discovery.Principal{discovery.DefaultPrincipal: {}}
	var errs []error
	for i, e := range file.Tokens {
		hash := sha256.Sum256([]byte(e.Token))
		err := e.check()
		p := discovery.Principal{Name: e.Name, Namespaces: e.Namespaces, Selector: e.Selector}
		namesake, taken := names[e.Name]
		switch _, twice := out[hash]; {
		case err == nil && taken && !reflect.DeepEqual(namesake, p):
			// The same principal may have two tokens, or none could be rotated without a gap.
			err = fmt.Errorf("name: %q is taken by a principal with other namespaces or another selector", e.Name)
		case err == nil && twice:
			err = errors.New("token: another entry has the same")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tokens[%d].%w", i, err))
			continue
		}
		names[e.Name], out[hash] = p, p
	}
	return out, errors.Join(errs...)
}

// place says where in the file something is wrong, as far as the names on the way are known ones: an unknown one may be a
// token in the wrong place.
func place(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		known := slices.Contains([]string{"tokens", "name", "token", "namespaces", "selector"}, token)
		if _, err := strconv.ParseUint(token, 10, 16); err != nil && !known {
			b.WriteString("/?")
			break
		}
		b.WriteString("/" + token)
	}
	return b.String()
}

func (e *entry) check() error {
	if len(validation.IsDNS1123Label(e.Name)) > 0 {
		return errors.New("name: want a DNS label: lower-case letters, digits and dashes, at most 63")
	}
	if n := len(e.Token); n < minToken || n > maxToken {
		return fmt.Errorf("token: %d characters, want %d to %d", n, minToken, maxToken)
	}
	if strings.ContainsFunc(e.Token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return errors.New("token: want visible ASCII characters alone")
	}
	if len(e.Namespaces) > maxNamespaces {
		return fmt.Errorf("namespaces: %d, want at most %d", len(e.Namespaces), maxNamespaces)
	}
	for i, ns := range e.Namespaces {
		if len(validation.IsDNS1123Label(ns)) > 0 {
			return fmt.Errorf("namespaces[%d] is no name of a namespace", i)
		}
	}
	if len(e.Selector) > maxAttributes {
		return fmt.Errorf("selector: %d attributes, want at most %d", len(e.Selector), maxAttributes)
	}
	for k, v := range e.Selector {
		if len(validation.IsQualifiedName(k)) > 0 || len(validation.IsValidLabelValue(v)) > 0 {
			return errors.New("selector: a key or value is not shaped like that of a label")
		}
	}
	return nil
}

// Tokens are the principals of a file. It is safe for concurrent use.
type Tokens struct {
	watcher filewatch.Watcher
	log     logr.Logger
	now     atomic.Pointer[byHash]
	refused atomic.Bool
}

// Load reads the file, which must be right.
func Load(path string, c clock.WithTicker, log logr.Logger) (*Tokens, error) {
	data, err := filewatch.Read(path, maxBytes)
	if err != nil {
		return nil, err
	}
	set, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t := &Tokens{log: log}
	t.now.Store(&set)
	t.watcher = filewatch.Watcher{Path: path, Limit: maxBytes, Clock: c, Known: data, Changed: t.changed}
	return t, nil
}

// Principal implements discovery.Tokens.
func (t *Tokens) Principal(hash [sha256.Size]byte) (discovery.Principal, bool) {
	p, ok := (*t.now.Load())[hash]
	return p, ok
}

// Accepted reports whether the content that the file had last could be used. It does not block.
func (t *Tokens) Accepted() bool { return !t.refused.Load() }

// Start takes over changes of the file until ctx ends. A content that is wrong changes nothing but the log.
func (t *Tokens) Start(ctx context.Context) error { return t.watcher.Run(ctx) }

// NeedLeaderElection lets standbys know the principals too.
func (t *Tokens) NeedLeaderElection() bool { return false }

func (t *Tokens) changed(data []byte, err error) {
	var set byHash
	if err == nil {
		set, err = parse(data)
	}
	t.refused.Store(err != nil)
	if err != nil {
		t.log.Error(err, "the token file cannot be used; the tokens before stay in force", "file", t.watcher.Path)
		return
	}
	t.now.Store(&set)
	t.log.Info("the token file was read again", "file", t.watcher.Path, "principals", len(set))
}
