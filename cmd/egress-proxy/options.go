package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/forwardproxy"
)

const maxShutdownGrace = 10 * time.Minute

// options are the flags; validate fills in what is derived from them.
type options struct {
	listen, exit, destinations, clients string
	authFile, stateFile                 string
	readyFD                             int
	grace                               time.Duration
	accessLog, version                  bool
	limits                              forwardproxy.Config

	listenAddr *net.TCPAddr
	exitAddr   netip.Addr
	policy     forwardproxy.DestinationPolicy
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("egress-proxy", flag.ContinueOnError)
	// One message, ours, instead of the message and the whole usage.
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.listen, "listen", "", "`host:port` to listen on (required); a host other than loopback needs --auth-file or --allow-clients")
	fs.StringVar(&o.exit, "exit-address", "", "local `IP` that connections leave from; empty lets the kernel choose")
	fs.StringVar(&o.destinations, "allow-destinations", "", "comma-separated `CIDRs` allowed besides public addresses")
	fs.StringVar(&o.clients, "allow-clients", "", "comma-separated `CIDRs` that may connect; empty means any")
	fs.StringVar(&o.authFile, "auth-file", "", "`file` with one username:password line, readable by its owner only; read again when it changes")
	fs.StringVar(&o.stateFile, "state-file", "", "`file` to keep locked while running; the proxy ends when it disappears")
	fs.IntVar(&o.readyFD, "ready-fd", -1, "inherited pipe or socket `descriptor` (3 or more) to report \"ready\" or \"error: …\" on")
	fs.DurationVar(&o.grace, "shutdown-grace", 10*time.Second, "how long running requests and tunnels may take to finish, 0 to 10m")
	fs.IntVar(&o.limits.MaxHeaderBytes, "max-header-bytes", forwardproxy.DefaultMaxHeaderBytes, "bound of one request's header, 8192 to 1048576")
	fs.DurationVar(&o.limits.HeaderTimeout, "header-timeout", forwardproxy.DefaultHeaderTimeout, "bound of receiving it, 50ms to 5m")
	fs.DurationVar(&o.limits.IdleTimeout, "idle-timeout", forwardproxy.DefaultIdleTimeout, "close what nothing moved on for this long, 50ms to 24h")
	fs.DurationVar(&o.limits.DialTimeout, "dial-timeout", forwardproxy.DefaultDialTimeout, "bound of resolving and connecting, 50ms to 5m")
	fs.IntVar(&o.limits.MaxConnections, "max-connections", forwardproxy.DefaultMaxConnections, "client connections served at a time, 1 to 65536; more get a 503")
	fs.BoolVar(&o.accessLog, "access-log", false, "log one line per request")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(stderr)
		fs.Usage()
		return o, err
	case err != nil:
		return o, err
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return o, nil
}

// validate checks every bound before anything is opened. Its error names flag
// and value.
func (o *options) validate() error {
	var err error
	if o.listenAddr, err = parseListen(o.listen); err != nil {
		return fmt.Errorf("--listen %q: %w", o.listen, err)
	}
	if o.exit != "" {
		o.exitAddr, err = netip.ParseAddr(o.exit)
		if err != nil || o.exitAddr.IsUnspecified() || o.exitAddr.IsMulticast() {
			return fmt.Errorf("--exit-address %q: not a single IP address", o.exit)
		}
	}
	if o.policy.Allow, err = parsePrefixes(o.destinations); err != nil {
		return fmt.Errorf("--allow-destinations %q: %w", o.destinations, err)
	}
	if o.limits.AllowClients, err = parsePrefixes(o.clients); err != nil {
		return fmt.Errorf("--allow-clients %q: %w", o.clients, err)
	}
	if o.grace < 0 || o.grace > maxShutdownGrace {
		return fmt.Errorf("--shutdown-grace %v: not within 0s and %v", o.grace, maxShutdownGrace)
	}
	for flagName, isZero := range map[string]bool{
		"--max-header-bytes": o.limits.MaxHeaderBytes == 0, "--header-timeout": o.limits.HeaderTimeout == 0,
		"--idle-timeout": o.limits.IdleTimeout == 0, "--dial-timeout": o.limits.DialTimeout == 0,
		"--max-connections": o.limits.MaxConnections == 0,
	} {
		// To the library 0 is "the default", which is not what somebody meant
		// who wrote it.
		if isZero {
			return fmt.Errorf("%s 0: must be greater", flagName)
		}
	}
	if _, err := forwardproxy.New(o.limits); err != nil {
		return fmt.Errorf("%s %w", flagOf(err), err)
	}
	return o.closedToStrangers()
}

// flagOf turns the library's field, which begins its error, into our flag.
func flagOf(err error) string {
	field, _, _ := strings.Cut(err.Error(), ":")
	switch field {
	case "MaxHeaderBytes":
		return "--max-header-bytes"
	case "HeaderTimeout":
		return "--header-timeout"
	case "IdleTimeout":
		return "--idle-timeout"
	case "DialTimeout":
		return "--dial-timeout"
	case "MaxConnections":
		return "--max-connections"
	}
	return "limits"
}

// closedToStrangers keeps a proxy that anyone can reach from serving anyone. A
// client list that covers a whole address family restricts nobody.
func (o *options) closedToStrangers() error {
	if o.listenAddr.AddrPort().Addr().Unmap().IsLoopback() || o.authFile != "" {
		return nil
	}
	for _, p := range o.limits.AllowClients {
		if p.Bits() == 0 {
			return fmt.Errorf("--listen %q: open proxy refused: --allow-clients %v allows everybody; use --auth-file or name your clients", o.listen, p)
		}
	}
	if len(o.limits.AllowClients) == 0 {
		return fmt.Errorf("--listen %q: open proxy refused: an address other than loopback needs --auth-file or --allow-clients", o.listen)
	}
	return nil
}

// parseListen resolves a name once, so that what was judged is what is bound.
func parseListen(listen string) (*net.TCPAddr, error) {
	if listen == "" {
		return nil, errors.New("required, as host:port")
	}
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return nil, errors.New("not host:port")
	}
	addr, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("cannot be resolved: %w", err)
	}
	return addr, nil
}

func parsePrefixes(list string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			if list == "" {
				return nil, nil
			}
			return nil, errors.New("an entry is empty")
		}
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return nil, fmt.Errorf("%q is not a CIDR", item)
		}
		if p != p.Masked() {
			return nil, fmt.Errorf("%q has bits set beyond its length; did you mean %v", item, p.Masked())
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}
