// Package instrument decorates providers with what is the same for all of them.
//
// A decorator embeds the provider it wraps and offers it through Unwrap. Optional interfaces are found with As, which
// looks through any number of decorators; a decorator that has something to add to an optional interface implements it
// itself, but only around a provider that has it.
package instrument
