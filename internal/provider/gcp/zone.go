package gcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/api/googleapi"
)

// noZoneError says that the project has no zone of that name.
type noZoneError struct{ zone, project string }

func (e *noZoneError) Error() string {
	return fmt.Sprintf("placement.zone %q is not a zone of project %s", e.zone, e.project)
}

// inZone explains the refusal of a call in a zone: a *noZoneError where the project has no such zone, else err as it is.
//
// The API does not say so itself: depending on the method it takes the zone for an invalid value, for one that the caller may
// not use or for a missing resource. Each of these can be about something else, and a misspelt zone must neither count as
// the operator being denied nor keep its Proxy for ever. So the zones are listed: that list, which is the project's and not the
// zone's, is proof.
func (p *Provider) inZone(ctx context.Context, zone string, err error) error {
	answer, ok := errors.AsType[*googleapi.Error](err)
	if !ok || answer.Code != http.StatusBadRequest && answer.Code != http.StatusForbidden && answer.Code != http.StatusNotFound {
		return err
	}
	known, listErr := p.api.zones(ctx)
	if listErr != nil || len(known) == 0 || known[zone] {
		return err // what went wrong with the list is logged
	}
	return &noZoneError{zone, p.config.Project}
}

// zones lists the names of the project's zones.
func (s *service) zones(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	err := eachPage(func(token string) (string, error) {
		page, err := s.api.Zones.List(s.project).MaxResults(pageSize).PageToken(token).Fields("nextPageToken", "items(name)").Context(ctx).Do()
		if err != nil {
			return "", err
		}
		for _, z := range page.Items {
			all[z.Name] = true
		}
		return page.NextPageToken, nil
	})
	return all, done(ctx, verbList, "zones", "", err)
}

// nowhere reports whether err says that there is no such zone, in which nothing can be.
func nowhere(err error) bool {
	_, ok := errors.AsType[*noZoneError](err)
	return ok
}
