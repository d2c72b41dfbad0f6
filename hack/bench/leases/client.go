package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	largeBody = `{"selector":{"pool":"large"},"namespace":"crawl","ttlSeconds":300,"target":"shop.example","prefer":"latency"}`
	smallBody = `{"selector":{"pool":"small"},"namespace":"crawl","ttlSeconds":300,"target":"shop.example","prefer":"latency"}`
	// holdBody takes what nobody gives back during the measurement.
	holdBody = `{"selector":{"pool":"small"},"namespace":"crawl","ttlSeconds":3600,"target":"shop.example","prefer":"latency"}`
	listPath = "/v1/proxies?limit=500"
)

// conn is one connection of a client. It sends bytes made beforehand, so that the generator costs little.
type conn struct {
	net.Conn
	in   *bufio.Reader
	body bytes.Buffer
}

func dial(ctx context.Context, addr string) (*conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReader(c)}, nil
}

func request(method, path, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n", method, path, benchToken)
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// call sends a request and reads the answer, which stays in c.body until the next.
func (c *conn) call(request []byte, want int) error {
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write(request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	c.body.Reset()
	_, err = io.Copy(&c.body, resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != want {
		return fmt.Errorf("status %d, want %d: %.300s", resp.StatusCode, want, c.body.String())
	}
	return nil
}

// leaseID reads the ID out of the answer, in which it comes first.
func (c *conn) leaseID() (string, error) {
	id, found := bytes.CutPrefix(c.body.Bytes(), []byte(`{"leaseID":"`))
	id, _, ended := bytes.Cut(id, []byte(`"`))
	if !found || !ended {
		return "", fmt.Errorf("no lease in %.100s", c.body.String())
	}
	return string(id), nil
}
