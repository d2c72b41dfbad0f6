//go:build linux

package local_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
)

func TestClassesOfErrors(t *testing.T) {
	for _, tc := range []struct {
		err, class error
		reason     string
	}{
		{unix.ENOSPC, provider.ErrQuotaExceeded, "somebody has to make room on the disk"},
		{unix.EDQUOT, provider.ErrQuotaExceeded, "or raise the user's share of it"},
		{unix.EMFILE, provider.ErrQuotaExceeded, "or the operator's descriptors"},
		{unix.ENFILE, provider.ErrQuotaExceeded, "or the host's"},
		{unix.EAGAIN, provider.ErrQuotaExceeded, "or the number of processes"},
		{unix.EACCES, provider.ErrDenied, "the folder is not the operator's"},
		{unix.EPERM, provider.ErrDenied, "the process is not the operator's"},
		{unix.EROFS, provider.ErrTransient, "it may be mounted again"},
		{unix.ENOENT, provider.ErrTransient, "a missing binary; never a proof of absence"},
		{fs.ErrNotExist, provider.ErrTransient, "never a proof of absence"},
		{context.DeadlineExceeded, provider.ErrTransient, "the time was short"},
		{errors.New("anything"), provider.ErrTransient, "what is not known may pass"},
	} {
		wrapped := fmt.Errorf("doing it: %w", &os.PathError{Op: "open", Path: "x", Err: tc.err})
		if got := local.ClassOf(wrapped); got != tc.class {
			t.Errorf("%v is %v, want %v: %s", tc.err, got, tc.class, tc.reason)
		}
	}
}
