package providertest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// maxCloudInit is the largest user-data that the backend takes, in bytes.
const maxCloudInit = 256 << 10

var idForm = regexp.MustCompile(`^zones/([a-z0-9-]{1,63})/instances/([a-z0-9-]{1,63})$`)

// Stateful is a correct provider on a Backend. IDs are zones/<zone>/instances/<name>. It holds nothing but its
// configuration.
type Stateful struct {
	backend *Backend
	name    string
	owner   provider.Owner
	window  provider.Window
}

var _ provider.Provider = (*Stateful)(nil)

// Provider returns a provider on b, as a process that has just started would. window.Visibility 0 means the backend's.
func (b *Backend) Provider(name string, owner provider.Owner, window provider.Window) *Stateful {
	if window.Visibility == 0 {
		window.Visibility = b.opts.Visibility
	}
	if window.Clock == nil {
		window.Clock = b.clock
	}
	return &Stateful{backend: b, name: name, owner: owner, window: window}
}

// Plan puts the instance into the requested zone, the first one by default.
func (s *Stateful) Plan(_ context.Context, req provider.CreateRequest) (string, error) {
	zone := req.Placement.Zone
	if zone == "" {
		zone = s.backend.opts.Zones[0]
	}
	var problem string
	switch {
	case req.UID == "":
		problem = `uid "" is empty`
	case req.Name != provider.NameFromUID(req.UID):
		problem = fmt.Sprintf("name %q is not the one derived from the UID", req.Name)
	case !slices.Contains(s.backend.opts.Zones, zone):
		problem = fmt.Sprintf("placement.zone %q is not one of %s", zone, strings.Join(s.backend.opts.Zones, ", "))
	case req.Port < 1 || req.Port > 65535:
		problem = fmt.Sprintf("port %d is not within 1 to 65535", req.Port)
	case len(req.CloudInit) > maxCloudInit:
		problem = fmt.Sprintf("cloudInit has %d bytes, at most %d fit", len(req.CloudInit), maxCloudInit)
	default:
		return "zones/" + zone + "/instances/" + req.Name, nil
	}
	return "", provider.Wrap(provider.ErrPermanent, "plan", s.name, "", errors.New(problem))
}

// Create looks at what stands under the ID, then sends; what the backend says is judged by looking again.
func (s *Stateful) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	id, err := s.Plan(ctx, req)
	if err != nil {
		return provider.Wrap(provider.ErrPermanent, "create", s.name, ref.ID, causeOf(err))
	}
	if id != ref.ID || req.UID != ref.UID || ref.Attempt < 1 {
		return provider.Wrap(provider.ErrPermanent, "create", s.name, ref.ID,
			fmt.Errorf("the record does not belong to the request, which is planned as %s", id))
	}
	if err := s.window.CheckSend(s.name, ref); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.window.Deadline(ref).Sub(s.window.Clock.Now()))
	defer cancel()
	zone, _ := s.backend.zoneOf(id)
	if there, err := s.standing(ctx, ref, zone); there || err != nil {
		return err
	}
	if err := s.window.CheckSend(s.name, ref); err != nil {
		return err
	}
	err = s.backend.insert(ctx, ref, insertion{
		id: id, zone: zone, token: provider.CreateToken(req.UID, ref.Attempt), port: req.Port,
		labels: s.owner.MarksFor(req, ref).ToMap(), credentials: revisionOf(req.Credentials),
	})
	if errors.Is(err, errExists) {
		// Somebody was faster: this attempt's other call, another attempt, or a stranger.
		if there, err := s.standing(ctx, ref, zone); there || err != nil {
			return err
		}
	}
	return s.wrap("create", ref.ID, err)
}

// standing reports whether the attempt itself stands under its ID; anything else that stands there is an error.
func (s *Stateful) standing(ctx context.Context, ref provider.Ref, zone string) (bool, error) {
	m, _, err := s.backend.read(ctx, OpCreateRead, ref, zone)
	if errors.Is(err, errAbsent) {
		return false, nil
	}
	if err != nil {
		return false, s.wrap("create", ref.ID, err)
	}
	marks, _ := provider.MarksFromMap(m.labels)
	if err := s.owner.Foreign(marks, ref.UID); err != nil {
		return false, provider.Wrap(provider.ErrConflict, "create", s.name, ref.ID, err)
	}
	if marks.Attempt != ref.Attempt {
		return false, provider.Wrap(provider.ErrTransient, "create", s.name, ref.ID,
			fmt.Errorf("attempt %d stands there, not %d", marks.Attempt, ref.Attempt)).WithReason(provider.ReasonAttemptMismatch)
	}
	return true, nil
}

// Delete removes exactly the machine that it has seen carrying the attempt's marks.
func (s *Stateful) Delete(ctx context.Context, ref provider.Ref) error {
	zone, err := s.scope("delete", ref.ID)
	if err != nil {
		return err
	}
	identity, err := s.identify(ctx, "delete", OpDeleteRead, ref, zone)
	if identity == "" || err != nil {
		return err
	}
	if err := s.backend.remove(ctx, ref, zone, identity); err != nil && !errors.Is(err, errAbsent) {
		return s.wrap("delete", ref.ID, err)
	}
	return nil
}

// identify returns the identity of the machine that ref means, "" where that is absent.
func (s *Stateful) identify(ctx context.Context, op, step string, ref provider.Ref, zone string) (string, error) {
	m, _, err := s.backend.read(ctx, step, ref, zone)
	if errors.Is(err, errAbsent) {
		return "", nil
	}
	if err != nil {
		return "", s.wrap(op, ref.ID, err)
	}
	marks, _ := provider.MarksFromMap(m.labels)
	if err := s.owner.Foreign(marks, ref.UID); err != nil {
		return "", provider.Wrap(provider.ErrConflict, op, s.name, ref.ID, err)
	}
	if marks.Attempt != ref.Attempt || ref.Identity != "" && ref.Identity != m.identity {
		return "", nil
	}
	return m.identity, nil
}

// scope returns the zone of an ID, or the error for one that is not ours to judge.
func (s *Stateful) scope(op, id string) (string, error) {
	zone, ok := s.backend.zoneOf(id)
	if !ok {
		return "", provider.Wrap(provider.ErrPermanent, op, s.name, id,
			fmt.Errorf("want zones/<zone>/instances/<name> with one of the zones %s", strings.Join(s.backend.opts.Zones, ", "))).
			WithReason(provider.ReasonScopeMismatch)
	}
	return zone, nil
}

func revisionOf(c *provider.Credentials) string {
	if c == nil {
		return ""
	}
	return c.Revision
}
