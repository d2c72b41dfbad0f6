package tracing

import "context"

type hidingKey struct{}

// Hiding returns a context for work whose errors may quote secrets: hide returns a text without them. It is called by Hide, by
// several goroutines at once.
func Hiding(ctx context.Context, hide func(string) string) context.Context {
	return context.WithValue(ctx, hidingKey{}, hide)
}

// Hide returns what a span may say of a text that others have made: the text without the secrets of Hiding, or, without that,
// as it is.
func Hide(ctx context.Context, text string) string {
	if hide, ok := ctx.Value(hidingKey{}).(func(string) string); ok {
		return hide(text)
	}
	return text
}
