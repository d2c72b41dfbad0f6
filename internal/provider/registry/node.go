package registry

import (
	"reflect"

	"go.yaml.in/yaml/v3"
)

// node is a value that is taken over as it stands, to be read later.
type node struct{ *yaml.Node }

func addressable[T any](into *T) reflect.Value { return reflect.ValueOf(into).Elem() }
