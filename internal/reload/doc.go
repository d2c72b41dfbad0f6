// Package reload keeps the configured providers what their file says, while the operator runs.
//
// It runs on every replica: a standby has to know the providers when it takes over. What a file says is taken over whole or,
// where it is wrong, not at all; a single entry whose change would disown instances in use stays as it was, and is tried again.
package reload
