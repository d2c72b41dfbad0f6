package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// indexHost serves the index of ready-made binaries that setup-envtest reads.
const indexHost = "raw.githubusercontent.com:443"

// download fetches ready-made binaries with setup-envtest and links them into dir. It fails quickly where the index
// cannot be reached.
func download(ctx context.Context, m buildModule, dir string, progress io.Writer) error {
	if os.Getenv("HTTPS_PROXY") == "" && os.Getenv("https_proxy") == "" {
		// A network that swallows packets would keep setup-envtest waiting for minutes.
		d := net.Dialer{Timeout: 3 * time.Second}
		conn, err := d.DialContext(ctx, "tcp", indexHost)
		if err != nil {
			return fmt.Errorf("%s is not reachable", indexHost)
		}
		_ = conn.Close()
	}
	minor := strings.Join(strings.SplitN(strings.TrimPrefix(m.kubernetes, "v"), ".", 3)[:2], ".")
	fmt.Fprintf(progress, "controlplane: downloading kube-apiserver and etcd %s.x\n", minor)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	from, err := goOutput(ctx, m.repo, "tool", "-modfile="+filepath.Join("hack", "tools", "go.mod"),
		"setup-envtest", "use", minor+".x", "--bin-dir", filepath.Join(dir, "download"), "-p", "path")
	if err != nil {
		return errors.New("setup-envtest failed: " + firstLine(err.Error()))
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(dir, "download"))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
