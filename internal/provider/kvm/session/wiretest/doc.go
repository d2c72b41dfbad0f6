// Package wiretest serves libvirt's remote protocol, over which tests reach a daemon in memory as they would a real one, and
// lets happen on it what no real daemon can be made to do. It is for tests alone.
package wiretest
