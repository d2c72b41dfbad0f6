// Package components runs what a throw-away environment is made of: processes that can be ended and started again, the
// steps that bring them up, and the command that all is there for.
package components
