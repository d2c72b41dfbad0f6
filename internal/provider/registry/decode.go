package registry

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder fills Go values from YAML nodes by their json tags. It is written out, instead of going through a JSON text,
// because every problem has to name its line and none may hide the next.
type decoder struct {
	entry string
	// siblings are keys that are read elsewhere, known here to explain a slip in their case.
	siblings []string
	ps       problems
}

var durationType = reflect.TypeFor[time.Duration]()

// value decodes n into v, which is addressable. null leaves v as it is.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	if isNull(n) || n.Kind == yaml.AliasNode {
		return // an alias has been reported
	}
	if v.Kind() == reflect.Pointer {
		target := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			target.Elem().Set(v.Elem())
		}
		d.value(n, target.Elem(), path)
		v.Set(target)
		return
	}
	switch target := v.Addr().Interface().(type) {
	case *node:
		target.Node = n
		return
	case json.Unmarshaler:
		if data, err := toJSON(n); err != nil {
			d.fail(n, path, "%v", err)
		} else if err := target.UnmarshalJSON(data); err != nil {
			d.fail(n, path, "%v", err)
		}
		return
	case encoding.TextUnmarshaler:
		if text, ok := d.text(n, path); ok {
			if err := target.UnmarshalText([]byte(text)); err != nil {
				d.fail(n, path, "%v", err)
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.fail(n, path, "want a list")
			return
		}
		list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, item := range n.Content {
			if isNull(item) {
				d.fail(item, index(path, i), "null is not an item")
			}
			d.value(item, list.Index(i), index(path, i))
		}
		v.Set(list)
	default:
		d.scalar(n, v, path)
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "want a mapping of keys to values")
		return
	}
	fields := map[string]reflect.Value{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" {
			fields[name] = v.FieldByIndex(f.Index)
		}
	}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if field, ok := fields[key.Value]; ok {
			d.value(n.Content[i+1], field, join(path, key.Value))
		} else {
			d.fail(key, join(path, key.Value), "unknown key%s", d.suggestion(key.Value, fields))
		}
	}
}

func (d *decoder) suggestion(key string, fields map[string]reflect.Value) string {
	for _, name := range append(slices.Sorted(maps.Keys(fields)), d.siblings...) {
		if strings.EqualFold(name, key) {
			return fmt.Sprintf("; keys are case-sensitive, it is called %q", name)
		}
	}
	return ""
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "want a mapping of keys to values")
		return
	}
	m := reflect.MakeMapWithSize(v.Type(), len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key, item := n.Content[i], reflect.New(v.Type().Elem()).Elem()
		d.value(n.Content[i+1], item, join(path, key.Value))
		m.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), item)
	}
	v.Set(m)
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	switch kind := v.Kind(); {
	case v.Type() == durationType:
		if text, ok := d.text(n, path); ok {
			duration, err := time.ParseDuration(text)
			if err != nil {
				d.fail(n, path, "%q is not a duration such as 30s or 5m", text)
			}
			v.SetInt(int64(duration))
		}
	case kind == reflect.String:
		if text, ok := d.text(n, path); ok {
			v.SetString(text)
		}
	case kind == reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			d.fail(n, path, "want true or false")
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case v.CanInt():
		i, err := strconv.ParseInt(d.number(n), 10, v.Type().Bits())
		if err != nil {
			d.fail(n, path, "want a whole decimal number of at most %d bits", v.Type().Bits())
		}
		v.SetInt(i)
	case v.CanUint():
		u, err := strconv.ParseUint(d.number(n), 10, v.Type().Bits())
		if err != nil {
			d.fail(n, path, "want a whole decimal number from 0, of at most %d bits", v.Type().Bits())
		}
		v.SetUint(u)
	case v.CanFloat():
		f, err := strconv.ParseFloat(n.Value, v.Type().Bits())
		if tag := n.ShortTag(); err != nil || n.Kind != yaml.ScalarNode || tag != "!!int" && tag != "!!float" {
			d.fail(n, path, "want a number")
		}
		v.SetFloat(f)
	default:
		d.fail(n, path, "the operator cannot read a %s here", v.Type())
	}
}

// text returns the string that n is. A number or a boolean is none: whoever means the text of one puts it in quotes.
func (d *decoder) text(n *yaml.Node, path string) (string, bool) {
	if tag := n.ShortTag(); n.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!timestamp" {
		d.fail(n, path, "want a string; put it in quotes")
		return "", false
	}
	return n.Value, true
}

// number returns the digits of n, or something that does not parse: 010 and 0x10 would mean different things to
// different readers.
func (d *decoder) number(n *yaml.Node) string {
	digits := strings.TrimPrefix(n.Value, "-")
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || len(digits) > 1 && digits[0] == '0' {
		return ""
	}
	return n.Value
}

func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	d.ps.add(n.Line, d.entry, path, format, args...)
}
