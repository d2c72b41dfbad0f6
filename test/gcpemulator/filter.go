package gcpemulator

import (
	"regexp"
	"strings"
)

// filter is a predicate over resources. The grammar is the subset that
// https://cloud.google.com/compute/docs/reference/rest/v1/instances/aggregatedList describes for "filter": comparisons of
// fields with =, !=, <, <=, >, >=, : (and :* for "is there at all"), joined by AND, OR, NOT and parentheses, or regular
// expressions with eq and ne. As in https://google.aip.dev/160, OR binds more tightly than AND, and AND may be left out.
type filter func(fields) bool

func parseFilter(text string) (filter, error) {
	if strings.TrimSpace(text) == "" {
		return func(fields) bool { return true }, nil
	}
	p := &filterParser{tokens: tokenize(text)}
	f, ok := p.all()
	if !ok || len(p.tokens) > 0 {
		return nil, errInvalid("filter", text, "Invalid list filter expression.")
	}
	return f, nil
}

var filterToken = regexp.MustCompile(`^(\(|\)|!=|<=|>=|=|<|>|:|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s()=!<>:"']+)`)

// tokenize splits text. What is no token is one that nothing accepts.
func tokenize(text string) (tokens []string) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		t := filterToken.FindString(text)
		if t == "" {
			return append(tokens, "\x00")
		}
		tokens, text = append(tokens, t), text[len(t):]
	}
	return tokens
}

type filterParser struct{ tokens []string }

func (p *filterParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *filterParser) next() string {
	t := p.peek()
	if t != "" {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *filterParser) all() (filter, bool) {
	f, ok := p.anyOf()
	for ok && p.peek() != "" && p.peek() != ")" {
		if p.peek() == "AND" {
			p.next()
		}
		var left, right filter
		left = f
		if right, ok = p.anyOf(); ok {
			f = func(x fields) bool { return left(x) && right(x) }
		}
	}
	return f, ok
}

func (p *filterParser) anyOf() (filter, bool) {
	f, ok := p.one()
	for ok && p.peek() == "OR" {
		p.next()
		var left, right filter
		left = f
		if right, ok = p.one(); ok {
			f = func(x fields) bool { return left(x) || right(x) }
		}
	}
	return f, ok
}

func (p *filterParser) one() (filter, bool) {
	switch t := p.next(); {
	case t == "NOT" || t == "-":
		f, ok := p.one()
		return func(x fields) bool { return !f(x) }, ok
	case t == "(":
		f, ok := p.all()
		return f, ok && p.next() == ")"
	case t == "" || strings.ContainsAny(t[:1], "\x00)=!<>:\"'"):
		return nil, false
	default:
		return compare(t, p.next(), p.next())
	}
}

// compare makes the predicate of one comparison.
func compare(field, op, value string) (filter, bool) {
	if value == "" || strings.ContainsAny(value[:1], "\x00()=!<>:") {
		return nil, false
	}
	bare := value
	if value[0] == '"' || value[0] == '\'' {
		value = strings.NewReplacer(`\`+value[:1], value[:1], `\\`, `\`).Replace(value[1 : len(value)-1])
	}
	some := func(holds func(string) bool) filter {
		return func(x fields) bool {
			for _, v := range x.values(field) {
				if holds(v) {
					return true
				}
			}
			return false
		}
	}
	none := func(f filter) filter { return func(x fields) bool { return !f(x) } }
	equal := some(func(v string) bool { return v == value })
	switch op {
	case "=":
		return equal, true
	case "!=":
		return none(equal), true
	case ":":
		if bare == "*" {
			return some(func(string) bool { return true }), true
		}
		return some(func(v string) bool { return strings.Contains(v, value) }), true
	case "<":
		return some(func(v string) bool { return before(v, value) }), true
	case ">=":
		return some(func(v string) bool { return !before(v, value) }), true
	case ">":
		return some(func(v string) bool { return before(value, v) }), true
	case "<=":
		return some(func(v string) bool { return !before(value, v) }), true
	case "eq", "ne":
		re, err := regexp.Compile("^(?:" + value + ")$")
		if err != nil {
			return nil, false
		}
		if op == "ne" {
			return none(some(re.MatchString)), true
		}
		return some(re.MatchString), true
	}
	return nil, false
}
