package wiretest

import (
	"encoding/binary"
	"errors"
	"io"
	"reflect"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket"
)

const (
	program = 0x20008086
	version = 1
	head    = 28
	// maxPacket is what a client of libvirt's may send.
	maxPacket = 32<<20 + head
)

// Packet is one of the protocol's.
type Packet struct {
	Program, Version, Procedure, Type uint32
	Serial                            int32
	Status                            uint32
	Payload                           []byte
}

// Bytes returns it as it is sent.
func (p Packet) Bytes() []byte {
	b := binary.BigEndian.AppendUint32(nil, cut[uint32](head+len(p.Payload)))
	for _, n := range []uint32{p.Program, p.Version, p.Procedure, p.Type, cut[uint32](p.Serial), p.Status} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return append(b, p.Payload...)
}

func readPacket(r io.Reader) (p Packet, err error) {
	var b [head]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return p, err
	}
	n := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	p = Packet{Program: n(1), Version: n(2), Procedure: n(3), Type: n(4), Serial: cut[int32](n(5)), Status: n(6)}
	if n(0) < head || n(0) > maxPacket || p.Program != program || p.Version != version {
		return p, errors.New("this is not libvirt's protocol")
	}
	p.Payload = make([]byte, n(0)-head)
	_, err = io.ReadFull(r, p.Payload)
	return p, err
}

// failure is the payload of an error.
func failure(err error) []byte {
	e, ok := errors.AsType[libvirt.Error](err)
	if !ok {
		e = libvirt.Error{Code: uint32(libvirt.ErrInternalError), Message: "internal error: " + err.Error()}
	}
	return encode(nil, reflect.ValueOf(struct {
		Code, Domain, HasMessage uint32
		Message                  string
		Level                    uint32
	}{e.Code, 0, 1, e.Message, 2}))
}

// Answer is the packet that answers p.
func (p Packet) Answer(payload []byte) Packet {
	p.Type, p.Status, p.Payload = socket.Reply, socket.StatusOK, payload
	return p
}

// Refuse is the packet that refuses p.
func (p Packet) Refuse(err error) Packet {
	p = p.Answer(failure(err))
	p.Status = socket.StatusError
	return p
}

// Stream is a packet of the stream that p has begun.
func (p Packet) Stream(status uint32, payload []byte) Packet {
	p.Type, p.Status, p.Payload = socket.Stream, status, payload
	return p
}

// StreamError is the packet that ends it by an error.
func (p Packet) StreamError(err error) Packet { return p.Stream(socket.StatusError, failure(err)) }

// String is a payload of one string.
func String(s string) []byte { return encode(nil, reflect.ValueOf(s)) }
