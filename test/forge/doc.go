// Package forge holds what a public forge reads of this repository to what is in it: workflows run the Make targets that
// .ci/run runs, with the least rights, and every module is kept up to date.
package forge
