package session

import (
	"context"
	"errors"

	"github.com/digitalocean/go-libvirt"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// finish ends the span of one call and logs the call. That something is not there is an answer.
func finish(ctx context.Context, span trace.Span, host, name string, err error) {
	defer span.End()
	log := logf.FromContext(ctx).WithName("kvm").WithValues("host", host, "call", name)
	if err == nil || Absent(err) {
		log.V(2).Info("libvirt call", "absent", err != nil)
		return
	}
	text := message.Clean(err.Error())
	log.V(1).Info("libvirt call failed", "error", text)
	span.SetStatus(codes.Error, tracing.Hide(ctx, text))
	if e, ok := errors.AsType[libvirt.Error](err); ok {
		span.SetAttributes(attribute.Int64("libvirt.code", int64(e.Code)))
	}
}

// Absent reports whether the daemon has answered that the domain or the volume asked for is not there.
func Absent(err error) bool {
	e, ok := errors.AsType[libvirt.Error](err)
	return ok && (e.Code == uint32(libvirt.ErrNoDomain) || e.Code == uint32(libvirt.ErrNoStorageVol) || e.Code == uint32(libvirt.ErrNoDomainMetadata))
}
