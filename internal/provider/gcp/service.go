package gcp

import (
	"context"
	"net/http"
	"time"

	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// Fields that are asked for: an instance's metadata holds its cloud-init, which must not even come here.
const (
	instanceFields  = "id,name,zone,status,statusMessage,description,labels,creationTimestamp,tags/items,scheduling(provisioningModel),networkInterfaces(networkIP,accessConfigs(natIP))"
	diskFields      = "id,name,zone,status,description,labels,creationTimestamp,users"
	operationFields = "name,operationType,clientOperationId,targetId,status,insertTime,httpErrorStatusCode,error(errors(code,message)),warnings(code)"
)

// partial asks for what can be reached where a zone cannot be; without it the whole list fails.
var partial = googleapi.QueryParameter("returnPartialSuccess", "true")

// service is the part of the Compute Engine API that the provider uses. Requests are never repeated by themselves: whoever
// calls knows whether that is still allowed.
type service struct {
	project string
	api     *compute.Service
	client  *http.Client
}

// newService prepares a client. It neither dials nor looks for credentials.
func newService(c Config, o Settings) (*service, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		base = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	base = base.Clone()
	base.MaxIdleConnsPerHost = 16
	base.TLSHandshakeTimeout = 10 * time.Second
	var way http.RoundTripper = base
	if !c.Anonymous {
		way = &authenticated{file: c.CredentialsFile, next: base}
	}
	// Outermost, where requests have no token yet, and where waiting for one is part of the span.
	client := &http.Client{Transport: tracing.Transport(&wireLog{next: way, payloads: o.LogPayloads}), CheckRedirect: noRedirects}
	opts := []option.ClientOption{option.WithHTTPClient(client)}
	if c.Endpoint != "" {
		opts = append(opts, option.WithEndpoint(c.Endpoint))
	}
	api, err := compute.NewService(context.Background(), opts...)
	if err != nil {
		return nil, err
	}
	api.UserAgent = "egress-proxies-operator"
	return &service{project: c.Project, api: api, client: client}, nil
}

// noRedirects: the API has none, and a token must not follow one.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (s *service) close() { s.client.CloseIdleConnections() }

func (s *service) insert(ctx context.Context, zone, token string, vm *compute.Instance) error {
	_, err := s.api.Instances.Insert(s.project, zone, vm).RequestId(token).Fields("name").Context(ctx).Do()
	return done(ctx, verbCreate, "instances", vm.Name, err)
}

func (s *service) instance(ctx context.Context, at place) (*compute.Instance, error) {
	vm, err := s.api.Instances.Get(s.project, at.zone, at.name).Fields(instanceFields).Context(ctx).Do()
	return vm, done(ctx, verbGet, "instances", at.name, err)
}

// deleteInstance takes a numeric ID for a name, as the API does in every path: what has taken the name since is spared.
func (s *service) deleteInstance(ctx context.Context, zone, id, token string) error {
	_, err := s.api.Instances.Delete(s.project, zone, id).RequestId(token).Fields("name").Context(ctx).Do()
	return done(ctx, verbDelete, "instances", id, err)
}

func (s *service) disk(ctx context.Context, at place) (*compute.Disk, error) {
	d, err := s.api.Disks.Get(s.project, at.zone, at.name).Fields(diskFields).Context(ctx).Do()
	return d, done(ctx, verbGet, "disks", at.name, err)
}

func (s *service) deleteDisk(ctx context.Context, zone, id, token string) error {
	_, err := s.api.Disks.Delete(s.project, zone, id).RequestId(token).Fields("name").Context(ctx).Do()
	return done(ctx, verbDelete, "disks", id, err)
}

// operations lists those of a zone that match.
func (s *service) operations(ctx context.Context, zone, filter string) ([]*compute.Operation, error) {
	var all []*compute.Operation
	err := eachPage(func(token string) (string, error) {
		page, err := s.api.ZoneOperations.List(s.project, zone).Filter(filter).MaxResults(pageSize).PageToken(token).
			Fields("nextPageToken", googleapi.Field("items("+operationFields+")")).Context(ctx).Do()
		if err != nil {
			return "", err
		}
		all = append(all, page.Items...)
		return page.NextPageToken, nil
	})
	return all, done(ctx, verbList, "zoneOperations", "", err)
}

// instances calls each for every VM that matches, and returns the scopes that could not be reached.
func (s *service) instances(ctx context.Context, filter string, each func(*compute.Instance)) (unread []string, err error) {
	err = eachPage(func(token string) (string, error) {
		page, err := s.api.Instances.AggregatedList(s.project).Filter(filter).MaxResults(pageSize).PageToken(token).
			Fields("nextPageToken", "unreachables", "warning(code)", googleapi.Field("items/*/instances("+instanceFields+")"), "items/*/warning(code)").
			Context(ctx).Do(partial)
		if err != nil {
			return "", err
		}
		unread = append(unread, page.Unreachables...)
		if page.Warning != nil && page.Warning.Code != noResults {
			unread = append(unread, everything)
		}
		for scope, list := range page.Items {
			if list.Warning != nil && list.Warning.Code != noResults {
				unread = append(unread, scope)
			}
			for _, vm := range list.Instances {
				each(vm)
			}
		}
		return page.NextPageToken, nil
	})
	return unread, done(ctx, verbList, "instances", "", err)
}

// disks calls each for every disk that matches, and returns the scopes that could not be reached.
func (s *service) disks(ctx context.Context, filter string, each func(*compute.Disk)) (unread []string, err error) {
	err = eachPage(func(token string) (string, error) {
		page, err := s.api.Disks.AggregatedList(s.project).Filter(filter).MaxResults(pageSize).PageToken(token).
			Fields("nextPageToken", "unreachables", "warning(code)", googleapi.Field("items/*/disks("+diskFields+")"), "items/*/warning(code)").
			Context(ctx).Do(partial)
		if err != nil {
			return "", err
		}
		unread = append(unread, page.Unreachables...)
		if page.Warning != nil && page.Warning.Code != noResults {
			unread = append(unread, everything)
		}
		for scope, list := range page.Items {
			if list.Warning != nil && list.Warning.Code != noResults {
				unread = append(unread, scope)
			}
			for _, d := range list.Disks {
				each(d)
			}
		}
		return page.NextPageToken, nil
	})
	return unread, done(ctx, verbList, "disks", "", err)
}

// regions lists the project's regions with their quotas.
func (s *service) regions(ctx context.Context) ([]*compute.Region, error) {
	var all []*compute.Region
	err := eachPage(func(token string) (string, error) {
		page, err := s.api.Regions.List(s.project).MaxResults(pageSize).PageToken(token).
			Fields("nextPageToken", "items(name,quotas(metric,limit,usage))").Context(ctx).Do()
		if err != nil {
			return "", err
		}
		all = append(all, page.Items...)
		return page.NextPageToken, nil
	})
	return all, done(ctx, verbList, "regions", "", err)
}
