package gcpemulator

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fields are those of a resource, by their names in JSON.
type fields struct{ message protoreflect.Message }

func fieldsOf(m proto.Message) fields { return fields{m.ProtoReflect()} }

// values returns what stands under a path like labels.team or networkInterfaces.networkIP, as text: nothing where nothing
// is set, and several values where a list lies on the way.
func (f fields) values(path string) []string {
	name, rest, _ := strings.Cut(path, ".")
	field := f.message.Descriptor().Fields().ByJSONName(name)
	if field == nil || !f.message.Has(field) {
		return nil
	}
	value := f.message.Get(field)
	switch {
	case field.IsMap():
		return valuesOf(field.MapValue(), value.Map().Get(protoreflect.ValueOfString(rest).MapKey()), "")
	case field.IsList():
		var all []string
		for i := range value.List().Len() {
			all = append(all, valuesOf(field, value.List().Get(i), rest)...)
		}
		return all
	}
	return valuesOf(field, value, rest)
}

func valuesOf(field protoreflect.FieldDescriptor, value protoreflect.Value, rest string) []string {
	switch {
	case !value.IsValid():
		return nil
	case field.Kind() == protoreflect.MessageKind:
		return fields{value.Message()}.values(rest)
	case rest != "":
		return nil
	case field.Kind() == protoreflect.EnumKind:
		if known := field.Enum().Values().ByNumber(value.Enum()); known != nil {
			return []string{string(known.Name())}
		}
		return nil
	}
	return []string{value.String()}
}

// before compares numbers, points in time, or else text.
func before(a, b string) bool {
	if x, err := strconv.ParseFloat(a, 64); err == nil {
		if y, err := strconv.ParseFloat(b, 64); err == nil {
			return x < y
		}
	}
	if x, err := time.Parse(time.RFC3339, a); err == nil {
		if y, err := time.Parse(time.RFC3339, b); err == nil {
			return x.Before(y)
		}
	}
	return a < b
}
