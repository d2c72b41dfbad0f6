package gcpemulator

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"

	"google.golang.org/protobuf/encoding/protojson"
)

func write(w http.ResponseWriter, out outcome) {
	if out.err != nil {
		var known *apiError
		if !errors.As(out.err, &known) {
			known = &apiError{code: http.StatusInternalServerError, reason: "backendError", message: out.err.Error()}
		}
		known.write(w)
		return
	}
	body, err := protojson.Marshal(out.message)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_, _ = w.Write(body) // a caller that hung up does not want it
}

func (e *apiError) write(w http.ResponseWriter) {
	body, err := json.Marshal(e.body())
	if err != nil { // details that a test gave and that are no JSON
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if e.retryAfter != "" {
		w.Header().Set("Retry-After", e.retryAfter)
	}
	w.WriteHeader(e.code)
	_, _ = w.Write(body)
}

// writeHTML answers as a front end does that has not reached the API.
func writeHTML(w http.ResponseWriter, code int, title string) {
	w.Header().Set("Content-Type", "text/html; charset=UTF-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte("<!DOCTYPE html>\n<html lang=en>\n<title>" + title + "</title>\n"))
}

// reset breaks the connection without an answer, and abruptly where that is possible.
func reset(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
