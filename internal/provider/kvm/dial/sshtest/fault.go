package sshtest

// Point is where in the life of a connection a Fault strikes.
type Point int

// The points, in the order in which a connection comes by.
const (
	// Never is no fault.
	Never Point = iota
	// Accept is before a byte was sent.
	Accept
	// KeyExchange is after the key exchange, before the user is told anything.
	KeyExchange
	// Auth is after the user was admitted.
	Auth
	// Channel is when the channel to the socket is to be opened.
	Channel
	// ToSocket is after After bytes from the client were forwarded.
	ToSocket
	// ToClient is after After bytes from the socket were forwarded.
	ToClient
)

// Action is what a Fault does.
type Action int

// The actions.
const (
	// Silence keeps the TCP connection open but neither reads from it nor writes to it any more.
	Silence Action = iota
	// Cut closes the TCP connection.
	Cut
	// Prohibit refuses the channel as a matter of policy. At Channel only.
	Prohibit
	// Fail refuses the channel as OpenSSH does when the socket cannot be reached. At Channel only.
	Fail
	// Babble sends what is not SSH and closes. At Accept only.
	Babble
)

// Fault is what goes wrong with each connection that is accepted while it is set.
type Fault struct {
	At    Point
	Do    Action
	After int64
}

// strike does to w what the fault says, if this is where it says so.
func (f Fault) strike(at Point, w *wire) {
	if f.At != at {
		return
	}
	switch f.Do {
	case Silence:
		w.silence()
	case Cut:
		_ = w.Close()
	case Babble:
		_, _ = w.Write([]byte("220 mail.example ESMTP\r\n"))
		_ = w.Close()
	case Prohibit, Fail:
	}
}

// limit is how many bytes are forwarded in a direction, -1 for all.
func (f Fault) limit(at Point) int64 {
	if f.At != at {
		return -1
	}
	return f.After
}
