package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// target is the one part of this backend that fails by itself.
const target = "apiserver"

// maxDetail bounds a detail in bytes.
const maxDetail = 256

var _ provider.Targeter = (*Provider)(nil)

// Target is the API server, for every ID: it fails as a whole.
func (p *Provider) Target(provider.Ref) string { return target }

// Check asks the API server for its version, for one Pod and one Secret in each namespace of the entry, as lists do, and
// whether the operator may create Pods there. Details are the server's version and, where the operator may read quotas,
// what they leave for Pods.
func (p *Provider) Check(ctx context.Context) []provider.TargetStatus {
	ctx, cancel := p.bound(p.calling(ctx, "check", ""))
	defer cancel()
	began := time.Now()
	s := provider.TargetStatus{Target: target, Details: map[string]string{}}
	v, err := p.api.version(ctx)
	s.Latency = time.Since(began)
	if err == nil {
		if v = message.Clean(v); len(v) <= maxDetail {
			s.Details["version"] = v
		}
		err = p.checkScopes(ctx)
	}
	if err == nil {
		p.headroom(ctx, s.Details)
		s.Ready, s.Reason = true, provider.CheckReachable
		return []provider.TargetStatus{s}
	}
	s.Reason, s.Message = reasonOf(ctx, err), message.Clean(err.Error())
	return []provider.TargetStatus{s}
}

// checkScopes returns the first failure, and where it was.
func (p *Provider) checkScopes(ctx context.Context) error {
	for _, namespace := range p.scopes() {
		if err := p.checkScope(ctx, namespace); err != nil {
			if namespace == metav1.NamespaceAll {
				return fmt.Errorf("all namespaces: %w", err)
			}
			return fmt.Errorf("namespace %s: %w", namespace, err)
		}
	}
	return nil
}

func (p *Provider) checkScope(ctx context.Context, namespace string) error {
	one := metav1.ListOptions{LabelSelector: selector(p.owner), Limit: 1}
	if err := p.api.list(ctx, secrets, namespace, one, &corev1.SecretList{}); err != nil {
		return err
	}
	if err := p.api.list(ctx, pods, namespace, one, &corev1.PodList{}); err != nil {
		return err
	}
	for _, resource := range []string{secrets, pods} {
		may, err := p.api.may(ctx, verbCreate, resource, namespace)
		if err != nil {
			return err
		}
		if !may {
			return &missingRightError{verbCreate, resource}
		}
	}
	return nil
}

// missingRightError is something that the API server would not do for the operator.
type missingRightError struct {
	verb     verb
	resource string
}

func (e *missingRightError) Error() string {
	return fmt.Sprintf("the operator may not %s %s", e.verb, e.resource)
}

// reasonOf puts a failed check into one word.
func reasonOf(ctx context.Context, err error) string {
	if _, ok := errors.AsType[*missingRightError](err); ok {
		return provider.CheckForbidden
	}
	switch {
	case apierrors.IsUnauthorized(err):
		return provider.CheckUnauthorized
	case apierrors.IsForbidden(err):
		return provider.CheckForbidden
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return provider.CheckTimeout
	case classify(err).reason == provider.ReasonUnreachable:
		return provider.CheckUnreachable
	}
	// It answered, but not as it should.
	return provider.CheckAPIError
}

// version returns what the API server calls itself, such as v1.37.2.
func (a *api) version(ctx context.Context) (string, error) {
	answer := a.rest.Get().MaxRetries(0).AbsPath("/version").Do(quiet(ctx))
	// Raw would leave out what the server said.
	if err := done(ctx, verbGet, "version", "", answer.Error()); err != nil {
		return "", err
	}
	body, _ := answer.Raw()
	var v version.Info
	if err := json.Unmarshal(body, &v); err != nil || v.GitVersion == "" {
		return "", done(ctx, verbGet, "version", "", errors.New("the answer is not that of a Kubernetes API server"))
	}
	return v.GitVersion, nil
}

// may asks whether the operator may do something; an empty namespace stands for all of them.
func (a *api) may(ctx context.Context, v verb, resource, namespace string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: string(v), Resource: resource},
	}}
	err := a.rest.Post().MaxRetries(0).AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").Body(review).Do(quiet(ctx)).Into(review)
	return review.Status.Allowed, done(ctx, verbCreate, "selfsubjectaccessreviews", "", err)
}
