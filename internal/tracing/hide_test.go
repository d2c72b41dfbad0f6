package tracing_test

import (
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

func TestHide(t *testing.T) {
	const text = "refused: sentinel"
	if got := tracing.Hide(t.Context(), text); got != text {
		t.Errorf("without secrets: %q", got)
	}
	ctx := tracing.Hiding(t.Context(), func(s string) string { return strings.ReplaceAll(s, "sentinel", "…") })
	if got := tracing.Hide(ctx, text); got != "refused: …" {
		t.Errorf("with secrets: %q", got)
	}
}
