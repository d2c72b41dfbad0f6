// Package export sends spans to where the standard variables of OpenTelemetry say.
//
// Nothing is installed unless they ask for it: spans cost nothing then, log lines have no trace keys, and no connection is
// made. A value that makes no sense is named once in the log, and what holds without it holds. A collector that does not answer
// loses spans, never the work they are about, and delays the end of the process by 5 s at most.
//
// Read says what the variables ask for, Start does it.
package export
