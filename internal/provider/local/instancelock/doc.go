// Package instancelock is how a process and its state file prove each other.
//
// Every instance of the local provider has a state file. The process that is
// the instance holds a POSIX record lock (fcntl F_SETLK, whole file) on it for
// its whole life; the kernel drops the lock when the process ends, however it
// ends, and names the holder's pid to anyone who asks. So "is it running, and
// which pid is it" needs no pid file and cannot be stale:
//
//	                Hold            process ends
//	no holder ───────────────▶ held ────────────▶ no holder
//	    │  ▲
//	    │  └── release (or close)
//	    ▼ TryTake
//	taken by a deleter: Hold fails with ErrHeld; the deleter unlinks the file;
//	                    a Hold that comes later fails with ErrReplaced
//
// # Traps of POSIX locks
//
//   - They belong to the process, not to the descriptor. Closing any descriptor
//     of the file in the holding process drops the lock, also one that was
//     opened a moment ago just to read. After [Hold] the process must never
//     open the file again, must keep the *os.File reachable (its finalizer
//     closes the descriptor) and may look at the path with Stat only.
//   - They never conflict within one process: [Holder] asked by the holder
//     itself answers "nobody".
//   - A pid is meaningful only in the pid namespace of who asks; a holder
//     outside of it is reported as pid 0.
//
// A deleter is usually a process that opens and closes the same file in other
// goroutines. On Linux [TryTake] therefore uses an open-file-description lock,
// which only its own descriptor can drop; [Holder] reports it as pid -1. On
// Darwin there is none, TryTake is an ordinary POSIX lock, and the caller must
// keep every other use of the file out of its process while it holds it.
package instancelock
