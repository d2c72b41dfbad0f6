package session

import (
	"encoding/binary"
	"errors"
	"reflect"

	"github.com/digitalocean/go-libvirt"
)

// maxElements is what an array of an answer may hold: the most that libvirt itself allows of any that is asked for
// (REMOTE_NETWORK_DHCP_LEASES_MAX in its remote_protocol.x).
const maxElements = 65536

// refusal is an answer that says no, as the client library reads it.
type refusal struct {
	Code, Domain, Optional uint32
	Message                string
}

// answers are what replies hold, by the procedures of the remote protocol. Those of all others are not read by the library.
var answers = map[uint32]reflect.Type{
	4:   reflect.TypeFor[libvirt.ConnectGetVersionRet](),
	7:   reflect.TypeFor[libvirt.ConnectGetCapabilitiesRet](),
	16:  reflect.TypeFor[libvirt.DomainGetInfoRet](),
	23:  reflect.TypeFor[libvirt.DomainLookupByNameRet](),
	24:  reflect.TypeFor[libvirt.DomainLookupByUUIDRet](),
	46:  reflect.TypeFor[libvirt.NetworkLookupByNameRet](),
	66:  reflect.TypeFor[libvirt.AuthListRet](),
	84:  reflect.TypeFor[libvirt.StoragePoolLookupByNameRet](),
	87:  reflect.TypeFor[libvirt.StoragePoolGetInfoRet](),
	88:  reflect.TypeFor[libvirt.StoragePoolGetXMLDescRet](),
	93:  reflect.TypeFor[libvirt.StorageVolCreateXMLRet](),
	95:  reflect.TypeFor[libvirt.StorageVolLookupByNameRet](),
	98:  reflect.TypeFor[libvirt.StorageVolGetInfoRet](),
	99:  reflect.TypeFor[libvirt.StorageVolGetXMLDescRet](),
	157: reflect.TypeFor[libvirt.ConnectGetLibVersionRet](),
	196: reflect.TypeFor[libvirt.DomainCreateWithFlagsRet](),
	212: reflect.TypeFor[libvirt.DomainGetStateRet](),
	228: reflect.TypeFor[libvirt.NodeGetMemoryStatsRet](),
	265: reflect.TypeFor[libvirt.DomainGetMetadataRet](),
	273: reflect.TypeFor[libvirt.ConnectListAllDomainsRet](),
	282: reflect.TypeFor[libvirt.StoragePoolListAllVolumesRet](),
	341: reflect.TypeFor[libvirt.NetworkGetDhcpLeasesRet](),
	350: reflect.TypeFor[libvirt.DomainDefineXMLFlagsRet](),
	353: reflect.TypeFor[libvirt.DomainInterfaceAddressesRet](),
	420: reflect.TypeFor[libvirt.DomainAgentSetResponseTimeoutRet](),
}

var errShape = errors.New("an answer claims to hold more than it does; this is not libvirt")

// fits checks that an answer holds what its counts claim: the client library reserves memory for what it is told, before it
// reads any of it (digitalocean/go-libvirt, decodeArray and DecodeFixedOpaque in its xdr2).
func fits(t reflect.Type, b []byte) error {
	_, err := skip(t, b)
	return err
}

// skip returns what is behind one value in XDR.
func skip(t reflect.Type, b []byte) (rest []byte, err error) {
	switch t.Kind() { //nolint:exhaustive // answers hold no others
	case reflect.Int64, reflect.Uint64, reflect.Float64:
		return cut(b, 8)
	case reflect.String:
		n, b, err := count(b)
		if err != nil {
			return nil, err
		}
		return cut(b, padded(n))
	case reflect.Array: // of bytes
		return cut(b, padded(t.Len()))
	case reflect.Slice:
		n, b, err := count(b)
		if err != nil || n > maxElements || n*4 > len(b) { // an element takes four bytes at the least
			return nil, errShape
		}
		for range n {
			if b, err = skip(t.Elem(), b); err != nil {
				return nil, err
			}
		}
		return b, nil
	case reflect.Struct:
		for i := range t.NumField() {
			if b, err = skip(t.Field(i).Type, b); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
	return cut(b, 4) // all smaller ones are sent as that
}

func count(b []byte) (n int, rest []byte, err error) {
	if len(b) < 4 {
		return 0, nil, errShape
	}
	n64 := int64(binary.BigEndian.Uint32(b))
	if n64 > int64(len(b)-4) {
		return 0, nil, errShape
	}
	return int(n64), b[4:], nil
}

func cut(b []byte, n int) ([]byte, error) {
	if n > len(b) {
		return nil, errShape
	}
	return b[n:], nil
}

func padded(n int) int { return (n + 3) &^ 3 }
