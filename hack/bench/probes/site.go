package main

import (
	"context"
	"encoding/json"
	"errors"
)

// site is what is probed: the process of the proxies and that of the origin behind them.
type site struct {
	route
	origin, proxy *process
}

// route is what a process that probes must know of the site.
type route struct {
	ports
	CA []byte
}

// nowhere is the route of probes that do nothing.
var nowhere = route{ports: ports{Proxy: 3128, Deaf: 3129}}

func startSite(ctx context.Context) (*site, error) {
	s := &site{}
	var ready originReady
	var err error
	if s.origin, err = start(ctx, &ready, "origin"); err != nil {
		return nil, err
	}
	s.CA = ready.CA
	s.proxy, err = start(ctx, &s.ports, "proxy", ready.Addr)
	return s, err
}

func (s *site) end() error { return errors.Join(s.proxy.end(), s.origin.end()) }

// arg is the route as an argument of a process.
func (r *route) arg() (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

func parseRoute(arg string) (r route, err error) {
	err = json.Unmarshal([]byte(arg), &r)
	return r, err
}
