package main

// FROZEN. This file is what a probe is measured against: the same bytes on the same wire, written down from top to bottom
// with nothing to decide, to classify or to report. Figures over time compare to it, so it does not change: neither to
// make it faster nor to make it slower.

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// referenceProbe opens a tunnel through proxy to host:443, does a full handshake in it and asks for /.
func referenceProbe(proxy, host string, roots *x509.CertPool, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	dialer := net.Dialer{Deadline: deadline, KeepAlive: -1}
	conn, err := dialer.Dial("tcp", proxy)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}

	_, err = io.WriteString(conn, "CONNECT "+host+":443 HTTP/1.1\r\nHost: "+host+":443\r\nUser-Agent: egress-proxies-operator\r\n\r\n")
	if err != nil {
		return err
	}
	tunnel, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect}) //nolint:bodyclose // the tunnel
	if err != nil {
		return err
	}
	if tunnel.StatusCode != http.StatusOK {
		return fmt.Errorf("CONNECT: %s", tunnel.Status)
	}

	inner := tls.Client(conn, &tls.Config{
		ServerName: host,
		RootCAs:    roots,
		NextProtos: []string{"http/1.1"},
		MinVersion: tls.VersionTLS12,
	})
	if err := inner.Handshake(); err != nil {
		return err
	}
	_, err = io.WriteString(inner, "GET / HTTP/1.1\r\nHost: "+host+"\r\nUser-Agent: egress-proxies-operator\r\nAccept: */*\r\n"+
		"Accept-Encoding: identity\r\nConnection: close\r\n\r\n")
	if err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(inner), nil) //nolint:bodyclose // read to its end; the connection is closed
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusNoContent {
		return fmt.Errorf("GET: %s", answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
