// Package walk follows pages that say how to begin, word for word: it types their commands into a shell, in the order of the
// page, and compares what comes back. It runs with WALK=1 alone (make test-docs), for a page may start a control plane and an
// operator, and needs what its reader needs.
//
// A block is followed where a comment, which readers do not see, stands on the line before it:
//
//	<!-- walk -->                        its commands are typed into the page's shell
//	<!-- walk: stays until "words" -->   a terminal of its own, which is interrupted at the end of the page
//
// In a block of language console, lines that begin with "$ " are commands and the others what they print; "…" stands for
// anything on a line, a line of it alone for any number of lines, and runs of blanks are equal. A block of language sh is one
// command, and a block of language text that is followed by one is what it prints.
package walk
