package wiretest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
)

var errShort = errors.New("the packet is too short")

// cut converts between kinds of numbers, which lose nothing in tests.
func cut[T, F int | int32 | int64 | uint8 | uint32 | uint64](v F) T { return T(v) }

// encode appends v in XDR (RFC 4506) as the client library has it: numbers of less than 32 bits take 32, arrays of bytes are
// opaque.
func encode(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.String:
		return pad(append(binary.BigEndian.AppendUint32(b, cut[uint32](v.Len())), v.String()...))
	case reflect.Int64:
		return binary.BigEndian.AppendUint64(b, cut[uint64](v.Int()))
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return binary.BigEndian.AppendUint32(b, cut[uint32](v.Int()))
	case reflect.Uint64:
		return binary.BigEndian.AppendUint64(b, v.Uint())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return binary.BigEndian.AppendUint32(b, cut[uint32](v.Uint()))
	case reflect.Array:
		for i := range v.Len() {
			b = append(b, cut[uint8](v.Index(i).Uint()))
		}
		return pad(b)
	case reflect.Slice:
		b = binary.BigEndian.AppendUint32(b, cut[uint32](v.Len()))
		for i := range v.Len() {
			b = encode(b, v.Index(i))
		}
		return b
	case reflect.Struct:
		for i := range v.NumField() {
			b = encode(b, v.Field(i))
		}
		return b
	default:
		panic(fmt.Sprintf("no XDR of %s", v.Type()))
	}
}

func pad(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }

// decode reads what encode has written into v, and returns the rest.
func decode(b []byte, v reflect.Value) ([]byte, error) {
	need := 4
	switch v.Kind() {
	case reflect.Int64, reflect.Uint64:
		need = 8
	case reflect.Array:
		need = v.Len()
	case reflect.Struct:
		need = 0
	default:
	}
	if len(b) < need {
		return nil, errShort
	}
	var err error
	switch v.Kind() {
	case reflect.String:
		n := int(binary.BigEndian.Uint32(b))
		if b = b[4:]; len(b) < n+(-n&3) {
			return nil, errShort
		}
		v.SetString(string(b[:n]))
		return b[n+(-n&3):], nil
	case reflect.Int64:
		v.SetInt(cut[int64](binary.BigEndian.Uint64(b)))
	case reflect.Int8, reflect.Int16, reflect.Int32:
		v.SetInt(int64(cut[int32](binary.BigEndian.Uint32(b))))
	case reflect.Uint64:
		v.SetUint(binary.BigEndian.Uint64(b))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(binary.BigEndian.Uint32(b)))
	case reflect.Array:
		for i := range need {
			v.Index(i).SetUint(uint64(b[i]))
		}
	case reflect.Slice:
		n := int(binary.BigEndian.Uint32(b))
		if b = b[4:]; len(b) < 4*n {
			return nil, errShort
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			if b, err = decode(b, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return b, nil
	case reflect.Struct:
		for i := range v.NumField() {
			if b, err = decode(b, v.Field(i)); err != nil {
				return nil, err
			}
		}
		return b, nil
	default:
		panic(fmt.Sprintf("no XDR of %s", v.Type()))
	}
	return b[need:], nil
}
