package identity

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

var resource = schema.GroupResource{Group: v1alpha1.Group, Resource: "proxies"}

// copies are the Proxies as they are stored. The client in memory goes through JSON at every read, which is most of what a
// round would cost; so reads are answered from copies, and no copy outlives a write.
type copies struct {
	byKey map[client.ObjectKey]*v1alpha1.Proxy
	// written are the keys whose copies are old.
	written map[client.ObjectKey]struct{}
}

// wrote notes a write, whether or not it came through.
func (s *copies) wrote(obj client.Object, err error) error {
	s.written[client.ObjectKeyFromObject(obj)] = struct{}{}
	return err
}

// fresh returns all copies, read anew from c, the client below, where that is due.
func (s *copies) fresh(ctx context.Context, c client.Client) (map[client.ObjectKey]*v1alpha1.Proxy, error) {
	for key := range s.written {
		p := &v1alpha1.Proxy{}
		switch err := c.Get(ctx, key, p); {
		case err == nil:
			s.byKey[key] = p
		case apierrors.IsNotFound(err):
			delete(s.byKey, key)
		default:
			return nil, err
		}
		delete(s.written, key)
	}
	return s.byKey, nil
}

func (s *copies) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	into, ok := obj.(*v1alpha1.Proxy)
	if !ok {
		return c.Get(ctx, key, obj, opts...)
	}
	all, err := s.fresh(ctx, c)
	if err != nil {
		return err
	}
	p := all[key]
	if p == nil {
		return apierrors.NewNotFound(resource, key.Name)
	}
	p.DeepCopyInto(into)
	return nil
}

func (s *copies) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	all, err := s.fresh(ctx, c)
	if err != nil {
		return err
	}
	asked := (&client.ListOptions{}).ApplyOptions(opts).Namespace
	for key, p := range all {
		if asked != "" && asked != key.Namespace {
			continue
		}
		switch into := list.(type) {
		case *v1alpha1.ProxyList:
			into.Items = append(into.Items, *p.DeepCopy())
		case *metav1.PartialObjectMetadataList:
			into.Items = append(into.Items, metav1.PartialObjectMetadata{ObjectMeta: *p.ObjectMeta.DeepCopy()})
		default:
			return fmt.Errorf("nobody lists %T", list)
		}
	}
	return nil
}

// newAPI returns an API server in memory.
func newAPI(t *testing.T) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	// Only what is needed: the client in memory works through the whole scheme at every write.
	must(t, v1alpha1.AddToScheme(scheme))
	s := &copies{byKey: map[client.ObjectKey]*v1alpha1.Proxy{}, written: map[client.ObjectKey]struct{}{}}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Proxy{}).WithInterceptorFuncs(interceptor.Funcs{
		Get: s.get, List: s.list,
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return s.wrote(obj, c.Create(ctx, obj, opts...))
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return s.wrote(obj, c.Update(ctx, obj, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return s.wrote(obj, c.Delete(ctx, obj, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return s.wrote(obj, c.Patch(ctx, obj, patch, opts...))
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return s.wrote(obj, c.SubResource(sub).Update(ctx, obj, opts...))
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return s.wrote(obj, c.SubResource(sub).Patch(ctx, obj, patch, opts...))
		},
	}).Build()
}

var errOutside = errors.New("outside of the operator's namespace")

// confined is what a namespaced operator's rights leave of the API server. Whatever it asks for beyond them fails, and the
// test with it.
func confined(t *testing.T, c client.WithWatch, namespace string) client.Client {
	check := func(asked string) error {
		if asked == namespace {
			return nil
		}
		t.Errorf("an operator of namespace %q reaches for %q", namespace, asked)
		return apierrors.NewForbidden(resource, asked, errOutside)
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := check(key.Namespace); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := check((&client.ListOptions{}).ApplyOptions(opts).Namespace); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := check(obj.GetNamespace()); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := check(obj.GetNamespace()); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
}
