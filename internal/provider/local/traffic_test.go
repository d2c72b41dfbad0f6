//go:build linux

package local_test

import (
	"bufio"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// through asks the proxy for url and returns the status and body of what it answers.
func through(addr, url string, creds *provider.Credentials) (status int, body string, err error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return 0, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if creds != nil {
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(creds.Username+":"+creds.Password)))
	}
	req.Close = true
	if err := req.WriteProxy(c); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

func address(inst *provider.Instance) string {
	return net.JoinHostPort(inst.IP, strconv.Itoa(int(inst.Port)))
}

// acceptedRevision asks the process itself which of the suite's credentials it takes.
func (w *world) acceptedRevision(id string) string {
	w.t.Helper()
	r := w.record(id)
	for _, revision := range []string{"r1", "r2"} {
		creds := revised(provider.Credentials{Username: "user", Password: "sentinel-password-9b7e", Revision: revision})
		status, _, err := through(net.JoinHostPort(r.Listen, strconv.Itoa(r.Port)), "http://127.0.0.1:1/", &creds)
		must(w.t, err)
		if status != http.StatusProxyAuthRequired {
			return revision
		}
	}
	return "neither of both"
}
