// Package logtest reads the operator's log more strictly than anybody who collects logs would: for tests. A collector takes the
// last of two values of one key, or the first, or drops the line.
package logtest
