package provider

import (
	"context"
	"time"
)

// Provider runs instances on one backend.
//
// Calls block at most until ctx ends or the provider's own call timeout passes, whichever is first. Every error is
// an *Error (see Wrap); Class tells what to do about it.
type Provider interface {
	// Plan validates req and decides the ID under which it would be created. The last element of an ID is
	// CreateRequest.Name; whatever is listed under another one counts as somebody else's (see NamedFor). Plan makes and
	// changes nothing that belongs to an instance; inputs that instances share (a base image) it may have prepared in the
	// background, and fails with ErrTransient until they are there. It fails with ErrPermanent and a message naming the field
	// and value that can never be satisfied, or with ErrQuotaExceeded where the scope is known to be full.
	Plan(ctx context.Context, req CreateRequest) (id string, err error)

	// Create asks the backend for the instance that ref records. It refuses with ErrPermanent when Plan(req) is not
	// ref.ID, with ErrTransient once ref.RequestedAt is older than the call timeout or another attempt of the same
	// owner holds the ID, and with ErrConflict when what holds the ID is foreign. It never returns ErrNotFound.
	Create(ctx context.Context, req CreateRequest, ref Ref) error

	// Get returns what stands under ref.ID. The instance found may be of another attempt: compare Marks.Attempt where
	// Identity is set. While nothing is visible it says StateProvisioning, with zero Marks where the backend knows of
	// no creation either. ErrNotFound is proof of absence. ErrConflict says that what stands there is foreign; it is
	// proof of our own's absence too, unless its reason is ReasonAbsenceUnproven: then a creation sent under the record
	// may still take effect.
	Get(ctx context.Context, ref Ref) (*Instance, error)

	// Delete asks the backend to remove the attempt that ref names, and only that. It succeeds when that attempt is
	// absent or already being removed; Get shows the instance until it is gone. What is foreign is not touched:
	// ErrConflict.
	Delete(ctx context.Context, ref Ref) error

	// ListByTag returns every instance of this installation, those being removed included. Scopes that could not
	// be read are named in Listing.Unread; an error means that nothing can be said at all.
	ListByTag(ctx context.Context) (Listing, error)
}

// CredentialUpdater is implemented by providers that change the proxy credentials of a running instance. For those a
// rotation does not change the spec mark, hence replaces nothing.
type CredentialUpdater interface {
	// UpdateCredentials makes creds the only ones the named attempt accepts. It is idempotent and returns once the
	// backend has them; the instance follows within 30 s.
	UpdateCredentials(ctx context.Context, ref Ref, creds Credentials) error
}

// Targeter is implemented by providers whose scope can fail in parts.
type Targeter interface {
	// Target names the part of the backend (host, project) that a call for ref goes to. It does not block.
	Target(ref Ref) string
}

// Scoper is implemented by providers whose configuration may be changed while instances of theirs are in use. Both methods go
// by the ID and the configuration alone: they ask nobody, do not block, and answer after Close too.
type Scoper interface {
	// InScope returns nil when the ID lies in the entry's scope, and else why not: what Get answers with ErrPermanent and
	// ReasonScopeMismatch.
	InScope(id string) error

	// Sites names where the entry looks for the instance of that ID, as far as the ID does not say so itself (a folder, the
	// address of a server), each name being enough to know it by. Two configurations that share none look in different
	// places, and what one of them has made the other takes for absent. None at all means that the ID says everything.
	Sites(id string) []string
}

// Ref is what a Proxy's status records about its instance.
type Ref struct {
	// ID is the provider's name of the only place where the instance can be.
	ID string
	// UID of the owning Proxy.
	UID string
	// Attempt counts from 1.
	Attempt int64
	// RequestedAt is when the creation was last put on record.
	RequestedAt time.Time
	// Identity, where set, narrows a Delete to the instance that a List or Get showed under that identity.
	Identity string
}

// PlanTargeter is implemented by providers whose Plan asks the backend. The others' Plan is not limited.
type PlanTargeter interface {
	// PlanTarget names the part of the backend that Plan of req goes to, "" for none. It does not block.
	PlanTarget(req CreateRequest) string
}

// Placement says where and on what an instance runs; see the provider's page for what each member means.
type Placement struct {
	Region      string
	Zone        string
	MachineType string
	Image       string
}

// Credentials are what the proxy asks of its clients. They must never be logged or put into an error.
type Credentials struct {
	Username string
	Password string
	// Revision changes exactly when the two above do; it reveals nothing about them.
	Revision string
}

// String hides the credentials from careless formatting.
func (c Credentials) String() string { return "Credentials{hidden}" }

// GoString hides the credentials from %#v.
func (c Credentials) GoString() string { return c.String() }

// CreateRequest is everything an instance is made from.
type CreateRequest struct {
	// Name is NameFromUID(UID): 22 characters, a DNS label.
	Name string
	// UID, Namespace and ProxyName identify the owning Proxy.
	UID       string
	Namespace string
	ProxyName string
	Placement Placement
	// CloudInit is the user-data with its variables filled in; it may hold secrets. Empty means none.
	CloudInit string
	// Port is where the proxy listens, 1 to 65535.
	Port int32
	// Credentials, where not nil, are required of every client.
	Credentials *Credentials
	// Spec is the desired spec mark (see SpecMark), stored at the instance as it is.
	Spec string
}

// String hides cloud-init and credentials from careless formatting.
func (r CreateRequest) String() string {
	return "CreateRequest{" + r.Namespace + "/" + r.ProxyName + "}"
}

// GoString hides cloud-init and credentials from %#v.
func (r CreateRequest) GoString() string { return r.String() }

// State is where an instance is in its life.
type State string

// The states. Only Running carries an address. Stopped and Terminated instances still exist and lead to deletion;
// Unknown ones are held and reported.
const (
	StateProvisioning State = "Provisioning"
	StateRunning      State = "Running"
	StateStopped      State = "Stopped"
	StateTerminated   State = "Terminated"
	// StateDeleting: a removal is in flight; it is not submitted again.
	StateDeleting State = "Deleting"
	// StateFailed: the creation failed after it was accepted. Instance.Err says why, Instance.Left whether anything
	// remains to be deleted.
	StateFailed  State = "Failed"
	StateUnknown State = "Unknown"
)

// Instance is what a backend says about one instance.
type Instance struct {
	ID    string
	State State
	// IP and Port are where clients reach the proxy; both set when State is Running.
	IP   string
	Port int32
	// ExitAddress is the source address that targets see, empty where the backend cannot tell.
	ExitAddress string
	Marks       Marks
	// Identity is given by the backend and never used twice (a UID, a numeric ID, pid and start time).
	Identity string
	// CreatedAt is read from the backend; zero where it could not be parsed, which counts as young.
	CreatedAt time.Time
	// Message says more about the state; deterministic, without secrets and request IDs.
	Message string
	// Err is the classified reason of StateFailed.
	Err error
	// Left says for StateFailed that something remains which Delete has to remove.
	Left bool
}

// Listing is the answer to ListByTag.
type Listing struct {
	Instances []Instance
	// Unread names the scopes that could not be read, each as one or more neighbouring path elements of the IDs in it
	// ("zones/b", "hosts/h1"). Nothing may be concluded about instances in them.
	Unread []string
}
