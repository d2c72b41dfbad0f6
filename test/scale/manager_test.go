package scale

import (
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// stubManager is as much of a manager as the reconciler's own SetupWithManager asks for: the controller that it builds is
// the real one, and the world runs it.
type stubManager struct {
	ctrl.Manager
	scheme  *runtime.Scheme
	client  client.Client
	cache   cache.Cache
	running []manager.Runnable
}

// GetScheme implements ctrl.Manager.
func (m *stubManager) GetScheme() *runtime.Scheme { return m.scheme }

// GetClient implements ctrl.Manager.
func (m *stubManager) GetClient() client.Client { return m.client }

// GetCache implements ctrl.Manager.
func (m *stubManager) GetCache() cache.Cache { return m.cache }

// GetLogger implements ctrl.Manager.
func (m *stubManager) GetLogger() logr.Logger { return logr.Discard() }

// GetControllerOptions implements ctrl.Manager. Worlds share the process, so the controller's name is not unique in it.
func (m *stubManager) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: ptr.To(true), RecoverPanic: ptr.To(false)}
}

// Add implements ctrl.Manager.
func (m *stubManager) Add(r manager.Runnable) error {
	m.running = append(m.running, r)
	return nil
}
