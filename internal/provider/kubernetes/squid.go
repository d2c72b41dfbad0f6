package kubernetes

import (
	"fmt"
	"strings"
)

const (
	configEnv  = "SQUID_CONF"
	runDir     = "/run/egress-proxy"
	authDir    = "/etc/egress-proxy"
	authFile   = "htpasswd"
	authHelper = "/usr/lib/squid/basic_ncsa_auth"

	// maxDescriptors bounds Squid's tables, which grow with the node's limit otherwise: that is a billion on some.
	maxDescriptors = 16384
)

// squidSettings are what a proxy's configuration depends on.
type squidSettings struct {
	port    int32
	auth    bool
	clients []span
	refused []span
	// runDir, authFile and helper are where things are; set by tests alone.
	runDir, authFile, helper string
}

// command writes the configuration and becomes Squid: in the foreground, with what is worth saying on standard error.
func command(dir string) []string {
	file := dir + "/squid.conf"
	return []string{"/bin/sh", "-c", `printf '%s' "$` + configEnv + `" > ` + file + ` && exec squid -N -d 1 -f ` + file}
}

// config returns the text of squid.conf. Its rules, in order: only what a forward proxy is for; only from the networks that
// are allowed; only with the credentials, where there are any; not to refused destinations. Names are resolved for nobody
// who has not come past the first three.
func (s squidSettings) config() string {
	dir, auth, helper := or(s.runDir, runDir), or(s.authFile, authDir+"/"+authFile), or(s.helper, authHelper)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	line("http_port %d tcpkeepalive=60,30,3", s.port)
	line("visible_hostname egress-proxy")
	line("pid_filename none")
	line("coredump_dir %s", dir)
	line("shutdown_lifetime 1 second")
	line("max_filedescriptors %d", maxDescriptors)
	line("pinger_enable off")
	line("netdb_filename none")

	// To the standard streams: what goes wrong comes out through -d, so that nothing has to be opened for it.
	line("cache_log /dev/null")
	line("logformat egress %%ts.%%03tu %%6tr %%>a %%Ss/%%03>Hs %%<st %%rm %%ru %%<a")
	line("acl spoken has request") // probes of the kubelet say nothing
	line("access_log stdio:/dev/stdout logformat=egress spoken")

	line("cache deny all")
	line("cache_mem 0 MB")
	line("memory_pools off")
	line("client_db off")
	line("quick_abort_min 0 KB")
	line("quick_abort_max 0 KB")
	line("connect_timeout 15 seconds")

	// Targets learn nothing of the client or the proxy.
	line("via off")
	line("forwarded_for delete")
	line("httpd_suppress_version_string on")
	line("reply_header_access X-Cache deny all")
	line("reply_header_access X-Cache-Lookup deny all")

	if s.auth {
		line("auth_param basic program %s %s", helper, auth)
		line("auth_param basic children 4 startup=1 idle=1 queue-size=256 on-persistent-overload=ERR")
		line("auth_param basic realm egress-proxy")
		line("auth_param basic credentialsttl 10 seconds")
		line("auth_param basic casesensitive on")
		line("authenticate_ttl 5 minutes")
		line("authenticate_cache_garbage_interval 5 minutes")
		line("acl authenticated proxy_auth REQUIRED")
	}
	line("acl web proto HTTP")
	for _, n := range forSquid(s.clients) {
		line("acl clients src %s", n)
	}
	for _, n := range forSquid(s.refused) {
		line("acl refused dst %s", n)
	}
	line("http_access deny manager")
	line("http_access deny !CONNECT !web")
	if len(s.clients) > 0 {
		line("http_access deny !clients")
	}
	if s.auth {
		line("http_access deny !authenticated")
	}
	if len(s.refused) > 0 {
		line("http_access deny refused")
	}
	if !s.auth && len(s.clients) == 0 {
		// Plan does not let it come to this.
		line("http_access deny all")
	}
	line("http_access allow all")
	return b.String()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
