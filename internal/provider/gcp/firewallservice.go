package gcp

import (
	"context"

	compute "google.golang.org/api/compute/v1"
)

func (s *service) firewall(ctx context.Context, name string) (*compute.Firewall, error) {
	f, err := s.api.Firewalls.Get(s.project, name).Context(ctx).Do()
	return f, done(ctx, verbGet, "firewalls", name, err)
}

func (s *service) insertFirewall(ctx context.Context, f *compute.Firewall) error {
	_, err := s.api.Firewalls.Insert(s.project, f).Context(ctx).Do()
	return done(ctx, verbCreate, "firewalls", f.Name, err)
}

// updateFirewall replaces the rule: what a hand has added goes, too.
func (s *service) updateFirewall(ctx context.Context, f *compute.Firewall) error {
	_, err := s.api.Firewalls.Update(s.project, f.Name, f).Context(ctx).Do()
	return done(ctx, verbUpdate, "firewalls", f.Name, err)
}

func (s *service) deleteFirewall(ctx context.Context, name string) error {
	_, err := s.api.Firewalls.Delete(s.project, name).Context(ctx).Do()
	return done(ctx, verbDelete, "firewalls", name, err)
}
