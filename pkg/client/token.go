package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const maxTokenBytes = 64 << 10

// TokenSource returns the bearer token for the next request. It is called once per request, by many goroutines at one
// time, and must return soon after ctx ends. Its error fails the request, and is repeated in that request's error: it must
// not hold the token.
type TokenSource func(ctx context.Context) (string, error)

// TokenFile returns a source that reads the token from the file at path anew for every request, so that a rotated Secret
// needs no restart. White space around the token is left out. The file is at most 64 KiB; an empty one is an error.
func TokenFile(path string) TokenSource {
	return func(context.Context) (string, error) {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer file.Close() //nolint:errcheck // it was only read
		text, err := io.ReadAll(io.LimitReader(file, maxTokenBytes+1))
		switch {
		case err != nil:
			return "", err
		case len(text) > maxTokenBytes:
			return "", fmt.Errorf("%s is larger than %d bytes", path, maxTokenBytes)
		}
		token := strings.TrimSpace(string(text))
		if token == "" {
			return "", fmt.Errorf("%s holds no token", path)
		}
		return token, nil
	}
}

// checkToken refuses what cannot stand in a header. The error does not repeat it.
func checkToken(token string) error {
	switch {
	case len(token) > maxTokenBytes:
		return fmt.Errorf("the token is larger than %d bytes", maxTokenBytes)
	case strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }):
		return errors.New("the token may hold only visible ASCII characters (does it end in a newline?)")
	}
	return nil
}
