package provider

// Options are what a provider is constructed from. The logger is not part of them: providers take it from the context
// of each call.
type Options struct {
	// Name of the entry: a DNS-1123 label of at most 63 characters. It is the name that errors carry.
	Name string
	// Block is the type's own part of the entry. It is never nil; an absent one decodes like {}.
	Block Block
	// Owner is the installation whose marks the provider sets and accepts. It has been validated.
	Owner Owner
	// Window brings the clock, the call timeout and the clock-skew allowance. A provider sets Visibility itself: it
	// alone knows its backend. It may lower CallTimeout.
	Window Window
}

// Block is one provider type's part of a configuration entry.
type Block interface {
	// Decode fills into, a pointer to a struct whose fields carry json tags. It is strict: unknown keys, keys in
	// another case, values of another type and numbers out of the field's range fail, all of them at once, each with
	// entry, key and line. null counts as absent. time.Duration is written as in "30s"; types with UnmarshalJSON or
	// UnmarshalText get their own way. What into held before stays where the block is silent, so defaults go in first.
	Decode(into any) error

	// Errorf reports a problem that only the provider can see with the value under key, with entry, key and line. key
	// is a path as in "pools[0].listen"; an absent key yields the line of the nearest enclosing value, "" the block's.
	Errorf(key, format string, args ...any) error
}
