package reload_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/reload"
)

// pages is an API server's list in pages.
type pages struct {
	client.Reader
	list func(page *unstructured.UnstructuredList, opts *client.ListOptions) error
}

func (p pages) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("no deadline")
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	return p.list(list.(*unstructured.UnstructuredList), &o)
}

func item(status map[string]any) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{"kind": "Proxy", "status": status}}
}

func TestInUseReadsEveryPage(t *testing.T) {
	t.Parallel()
	var asked []string
	u := reload.InUse{Namespace: "ns", Timeout: time.Second, Live: pages{list: func(page *unstructured.UnstructuredList, o *client.ListOptions) error {
		asked = append(asked, o.Namespace+" "+o.FieldSelector.String()+" "+o.Continue)
		switch o.Continue {
		case "":
			page.Items = append(page.Items, item(map[string]any{"providerID": "x/1"}), item(nil))
			page.SetContinue("more")
		default:
			page.Items = append(page.Items, item(map[string]any{"providerID": "x/2", "phase": map[string]any{"of": "a later version"}}))
		}
		return nil
	}}}
	got, err := u.IDs(t.Context(), "exits")
	if err != nil || !reflect.DeepEqual(got, []string{"x/1", "x/2"}) {
		t.Errorf("IDs = %v, %v", got, err)
	}
	if want := []string{"ns spec.provider=exits ", "ns spec.provider=exits more"}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

func TestInUseIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	for reason, list := range map[string]func(page *unstructured.UnstructuredList, o *client.ListOptions) error{
		"the second page fails": func(page *unstructured.UnstructuredList, o *client.ListOptions) error {
			if o.Continue != "" {
				return errors.New("expired")
			}
			page.Items = append(page.Items, item(map[string]any{"providerID": "x/1"}))
			page.SetContinue("more")
			return nil
		},
		"a list that was cut short": func(page *unstructured.UnstructuredList, _ *client.ListOptions) error {
			page.Items = append(page.Items, item(map[string]any{"providerID": "x/1"}))
			page.SetRemainingItemCount(ptr.To[int64](3))
			return nil
		},
		"an ID that is none": func(page *unstructured.UnstructuredList, _ *client.ListOptions) error {
			page.Items = append(page.Items, item(map[string]any{"providerID": int64(3)}))
			return nil
		},
	} {
		if got, err := (reload.InUse{Timeout: time.Second, Live: pages{list: list}}).IDs(t.Context(), "a"); err == nil || got != nil {
			t.Errorf("%s: %v, %v", reason, got, err)
		}
	}
}
