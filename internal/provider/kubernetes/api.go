package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

const (
	pods       = "pods"
	secrets    = "secrets"
	namespaces = "namespaces"
)

// verb is what a call asks the API server to do; what a refusal means depends on it.
type verb string

const (
	verbGet    verb = "get"
	verbList   verb = "list"
	verbCreate verb = "create"
	verbUpdate verb = "update"
	verbDelete verb = "delete"
	verbWatch  verb = "watch"
)

// callError is how a call to the API server ended, with what it was.
type callError struct {
	verb     verb
	resource string
	name     string
	err      error
}

func (e *callError) Error() string {
	if e.name == "" {
		return string(e.verb) + " " + e.resource + ": " + e.err.Error()
	}
	return string(e.verb) + " " + e.resource + " " + e.name + ": " + e.err.Error()
}

func (e *callError) Unwrap() error { return e.err }

// api is the part of the Kubernetes API that the provider uses. Requests are never repeated by themselves: whoever calls
// knows whether that is still allowed, and what the server asked for in Retry-After is the reconciler's to keep.
type api struct {
	// server is where the API is.
	server string
	rest   rest.Interface
	client *http.Client
	codec  runtime.ParameterCodec
}

// settings are the same for every kubeconfig.
func settings(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.UserAgent = "egress-proxies-operator"
	c.QPS = -1 // the guard around providers and the server's own priorities bound the calls
	c.WarningHandler = rest.NoWarnings{}
	return c
}

// newAPI returns a client for the server of config, which follows the file that config was read from, if there is one.
func newAPI(config *rest.Config, file string) (*api, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c := settings(config)
	c.APIPath = "/api"
	c.GroupVersion = &corev1.SchemeGroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.AcceptContentTypes, c.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	transport, err := rest.TransportFor(c)
	if err != nil {
		return nil, err
	}
	if file != "" {
		transport = &rotating{file: file, first: c, with: transport}
	}
	// Outermost, so that a span covers getting credentials, too, and the request has none yet.
	client := &http.Client{Transport: tracing.Transport(transport), Timeout: c.Timeout}
	r, err := rest.RESTClientForConfigAndClient(c, client)
	if err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	return &api{server: c.Host, rest: r, client: client, codec: runtime.NewParameterCodec(scheme)}, nil
}

func (a *api) close() { a.client.CloseIdleConnections() }

// quiet keeps the caller's logger from client-go, which writes whole bodies to it at higher levels, those of Secrets, too.
func quiet(ctx context.Context) context.Context { return logr.NewContext(ctx, logr.Discard()) }

func (a *api) get(ctx context.Context, resource string, at place, into runtime.Object) error {
	err := a.rest.Get().MaxRetries(0).Namespace(at.namespace).Resource(resource).Name(at.name).Do(quiet(ctx)).Into(into)
	return done(ctx, verbGet, resource, at.name, err)
}

// namespace returns nil when the namespace is there and may be read.
func (a *api) namespace(ctx context.Context, name string) error {
	err := a.rest.Get().MaxRetries(0).Resource(namespaces).Name(name).Do(quiet(ctx)).Into(&corev1.Namespace{})
	return done(ctx, verbGet, namespaces, name, err)
}

// list reads one page; an empty namespace stands for all of them.
func (a *api) list(ctx context.Context, resource, namespace string, opts metav1.ListOptions, into runtime.Object) error {
	err := a.rest.Get().MaxRetries(0).NamespaceIfScoped(namespace, namespace != "").Resource(resource).
		VersionedParams(&opts, a.codec).Do(quiet(ctx)).Into(into)
	return done(ctx, verbList, resource, "", err)
}

// create tells the server, too, when to give up: a request that it works on after its caller has gone would be one that
// arrives late.
func (a *api) create(ctx context.Context, resource string, at place, limit time.Duration, object, into runtime.Object) error {
	err := a.rest.Post().MaxRetries(0).Namespace(at.namespace).Resource(resource).Timeout(limit).Body(object).Do(quiet(ctx)).Into(into)
	return done(ctx, verbCreate, resource, at.name, err)
}

// updateSecret replaces exactly the Secret that s was read as.
func (a *api) updateSecret(ctx context.Context, s *corev1.Secret) error {
	err := a.rest.Put().MaxRetries(0).Namespace(s.Namespace).Resource(secrets).Name(s.Name).Body(s).Do(quiet(ctx)).Error()
	return done(ctx, verbUpdate, secrets, s.Name, err)
}

// patchPod merges a patch.
func (a *api) patchPod(ctx context.Context, at place, patch []byte) error {
	err := a.rest.Patch(types.MergePatchType).MaxRetries(0).Namespace(at.namespace).Resource(pods).Name(at.name).Body(patch).Do(quiet(ctx)).Error()
	return done(ctx, verbUpdate, pods, at.name, err)
}

// delete removes the object of that UID and no other.
func (a *api) delete(ctx context.Context, resource string, at place, uid types.UID) error {
	opts := &metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	}
	err := a.rest.Delete().MaxRetries(0).Namespace(at.namespace).Resource(resource).Name(at.name).Body(opts).Do(quiet(ctx)).Error()
	return done(ctx, verbDelete, resource, at.name, err)
}
