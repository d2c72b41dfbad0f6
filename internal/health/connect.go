package health

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

const userAgent = "egress-proxies-operator"

var (
	errBudget    = errors.New("larger than 64 KiB")
	errInterim   = errors.New("too many interim answers")
	errMalformed = errors.New("not HTTP")
)

// connect asks the proxy for a tunnel to the target. Any 2xx answer opens one.
func (x *exchange) connect() (net.Conn, *failure) {
	var b strings.Builder
	b.WriteString("CONNECT " + x.aim.authority + " HTTP/1.1\r\nHost: " + x.aim.authority + "\r\n")
	b.WriteString("User-Agent: " + userAgent + "\r\n")
	b.WriteString(proxyAuthorization(x.target.Credentials))
	b.WriteString("\r\n")
	if _, err := io.WriteString(x.conn, b.String()); err != nil {
		return nil, responseFailure(stageConnect, err)
	}
	limited := &budget{r: x.conn, left: maxHeaderBytes}
	r := bufio.NewReader(limited)
	status, err := readConnectAnswer(r)
	switch {
	case err != nil:
		return nil, responseFailure(stageConnect, limited.cause(err))
	case status == http.StatusProxyAuthRequired:
		return nil, proxyAuthFailure(x.target.Credentials)
	case !success(status):
		return nil, refusedFailure(status)
	}
	limited.lift()
	return &tunnelConn{Conn: x.conn, r: r}, nil
}

// readConnectAnswer reads the proxy's answer up to the empty line and not a byte further: what follows a 2xx is the
// tunnel, whatever Content-Length or Transfer-Encoding say (RFC 9110, section 9.3.6), which is why http.ReadResponse
// does not fit.
func readConnectAnswer(r *bufio.Reader) (status int, err error) {
	tp := textproto.NewReader(r)
	for range maxInterim + 1 {
		line, err := tp.ReadLine()
		if err != nil {
			return 0, err
		}
		if status, err = parseStatusLine(line); err != nil {
			return 0, err
		}
		if _, err = tp.ReadMIMEHeader(); err != nil {
			return 0, err
		}
		if !interim(status) {
			return status, nil
		}
	}
	return 0, errInterim
}

func parseStatusLine(line string) (int, error) {
	version, rest, _ := strings.Cut(line, " ")
	if _, _, ok := http.ParseHTTPVersion(version); !ok {
		return 0, errMalformed
	}
	code, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	status, err := strconv.Atoi(code)
	if err != nil || len(code) != 3 || status < 100 {
		return 0, errMalformed
	}
	return status, nil
}

// tunnelConn is the connection behind the bytes that were read ahead with the answer.
type tunnelConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *tunnelConn) Read(p []byte) (int, error) { return c.r.Read(p) }
