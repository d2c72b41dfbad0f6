package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/health"
)

// options are the operator's settings. Each is a flag and an environment variable EPX_<FLAG>; the flag wins.
type options struct {
	providersConfig string
	namespace       string
	installationID  string

	leaderElect    bool
	leaderID       string
	leaderNS       string
	leaseDuration  time.Duration
	metricsAddress string
	metricsSecure  bool
	metricsCerts   string
	probesAddress  string
	pprofAddress   string

	workers          int
	provisioningPoll time.Duration
	deletionPoll     time.Duration
	driftPoll        time.Duration
	quotaRetry       time.Duration

	provisioningTimeout time.Duration
	drainTimeout        time.Duration
	maxReplacing        string

	callTimeout    time.Duration
	skewAllowance  time.Duration
	checkInterval  time.Duration
	reportInterval time.Duration

	healthWorkers     int
	healthTick        time.Duration
	gcpPayloads       bool
	traceProbes       bool
	judgeURL          string
	minReportInterval time.Duration
	externalAllow     string

	gcInterval        time.Duration
	gcMinAge          time.Duration
	gcDryRun          bool
	gcAllowNamespaced bool
	gcApprove         string

	discoveryAddress string
	discoveryCert    string
	discoveryKey     string
	tokenFile        string
	startupHold      time.Duration
	podName          string
	podNS            string
	discoveryToken   string // from DISCOVERY_TOKEN alone: flags show in process lists
	requireAuth      bool
	maxConnections   int
	defaultLeaseTTL  time.Duration
	maxLeaseTTL      time.Duration
	maxLeaseLife     time.Duration
	cooldownWindow   time.Duration
	leasePrefer      string

	logLevel  int
	logFormat string
	version   bool
}

// envPrefix starts the name of every setting's environment variable.
const envPrefix = "EPX_"

func (o *options) flags(out io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("operator", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() {
		fmt.Fprint(out, "Usage: operator [flags]\n\nThe cluster is found through KUBECONFIG, ~/.kube/config or the Pod's service account. Every flag has an environment\nvariable EPX_<FLAG>, which the flag overrides. DISCOVERY_TOKEN is the token of the discovery API.\n\n")
		f.PrintDefaults()
	}
	f.StringVar(&o.providersConfig, "providers-config", "/etc/proxy-operator/providers.yaml", "`file` with the provider entries; read again when it changes")
	f.StringVar(&o.namespace, "namespace", "", "watch this `namespace` alone; all when empty")
	f.StringVar(&o.installationID, "installation-id", "", "`ID` that marks this installation's instances: 1 to 63 characters of a-z, 0-9 and '-'; derived from cluster, namespace (leader-election-namespace or the operator's own) and leader-election-id when empty. It must not change while instances exist, nor, when it is derived, may what it is derived from")

	f.BoolVar(&o.leaderElect, "leader-elect", false, "act only while holding the election lease; needed with more than one replica")
	f.StringVar(&o.leaderID, "leader-election-id", "egress-proxies-operator", "`name` of the election lease; the derived installation ID follows from it")
	f.StringVar(&o.leaderNS, "leader-election-namespace", "", "`namespace` of the election lease; the operator's own when empty. The derived installation ID follows from it")
	f.StringVar(&o.podName, "pod-name", "", "`name` of the Pod this runs in: while it leads it carries the label crawl.example.com/leader: <leader-election-id>, for a Service to select; no label when empty. Needs list and patch on Pods in pod-namespace")
	f.StringVar(&o.podNS, "pod-namespace", "", "`namespace` of the Pod this runs in; that of its service account when empty, and leader-election-namespace where there is none")
	f.DurationVar(&o.leaseDuration, "leader-election-lease-duration", 15*time.Second, "how long the election lease lasts without renewal (5s to 5m)")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "`address` of the metrics server; 0 turns it off")
	f.BoolVar(&o.metricsSecure, "metrics-secure", true, "serve metrics over HTTPS, to whom the cluster lets get /metrics; else over HTTP, to everybody who reaches the address")
	f.StringVar(&o.metricsCerts, "metrics-cert-dir", "", "`folder` with tls.crt and tls.key for the metrics server, read again when they change; a self-signed certificate when empty")
	f.StringVar(&o.probesAddress, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 turns it off")
	f.StringVar(&o.pprofAddress, "pprof-bind-address", "0", "`address` of Go's profiles under /debug/pprof/, for everybody who reaches it; 0 turns it off")

	f.IntVar(&o.workers, "max-concurrent-reconciles", 10, "Proxies reconciled side by side (1 to 1000)")
	f.DurationVar(&o.provisioningPoll, "provisioning-poll", 10*time.Second, "longest wait between two looks at an instance on its way up (1s to 10m)")
	f.DurationVar(&o.deletionPoll, "deletion-poll", 10*time.Second, "longest wait between two looks at an instance on its way down (1s to 10m)")
	f.DurationVar(&o.driftPoll, "drift-poll", 60*time.Second, "interval between two lists of a provider's instances (1s to 1h)")
	f.DurationVar(&o.quotaRetry, "quota-retry", 5*time.Minute, "wait after a quota was found exhausted (1s to 24h)")
	f.DurationVar(&o.provisioningTimeout, "provisioning-timeout", 15*time.Minute, "how long an instance may take until it runs before it is given up (1m to 24h)")
	f.DurationVar(&o.drainTimeout, "drain-timeout", 2*time.Minute, "how long leases may hold back the replacement or deletion of their proxy (0s to 24h)")
	f.StringVar(&o.maxReplacing, "max-replacing", "10%", "how many of a provider's instances are replaced at one time: a `number` or a percentage, at least one")
	f.DurationVar(&o.callTimeout, "provider-call-timeout", 30*time.Second, "deadline of one backend call (1s to 10m)")
	f.DurationVar(&o.skewAllowance, "clock-skew-allowance", 5*time.Second, "how far the clocks of two replicas may be apart (0s to 10m)")

	f.DurationVar(&o.checkInterval, "provider-check-interval", time.Minute, "interval between two checks of all providers' targets (1s to 1h)")
	f.DurationVar(&o.reportInterval, "provider-health-report-interval", 10*time.Minute, "how old what a ProviderHealth shows may become while nothing changes (1s to 24h)")

	f.IntVar(&o.healthWorkers, "health-workers", 64, "probes side by side, those that take longer than a second aside (1 to 10000)")
	f.BoolVar(&o.traceProbes, "trace-health-probes", false, "make each probe a trace, where traces are sent at all (OTEL_* variables): thousands a minute")
	f.BoolVar(&o.gcpPayloads, "gcp-wire-log-full-payloads", false, "log the bodies of requests to Compute Engine and of its answers at verbosity 5, metadata withheld")
	f.StringVar(&o.judgeURL, "judge-url", "", "http or https `url` that is fetched without a proxy when over half of the proxies that probe one url fail: "+
		"while it fails, too, no verdict becomes Unhealthy and nothing is replaced for being so; empty for never")
	f.DurationVar(&o.healthTick, "health-tick", time.Second, "how often due probes are looked for (100ms to 1m)")
	f.DurationVar(&o.minReportInterval, "min-report-interval", 60*time.Second, "least time between two reports of a changed reason; of a latency that has changed for good ten times that (1s to 1h)")
	f.StringVar(&o.externalAllow, "external-allow-cidrs", "", "comma-separated `CIDRs` in which External endpoints may lie although they are loopback, link-local or metadata addresses")

	f.DurationVar(&o.gcInterval, "gc-interval", 10*time.Minute, "interval between two sweeps for orphaned instances (10s to 24h)")
	f.DurationVar(&o.gcMinAge, "gc-min-age", 10*time.Minute, "age below which no instance counts as orphaned (1m to 24h)")
	f.BoolVar(&o.gcDryRun, "gc-dry-run", false, "say which instances are orphaned, delete none")
	f.BoolVar(&o.gcAllowNamespaced, "gc-allow-namespaced", false, "collect although --namespace restricts the operator: only instances whose mark names that namespace")
	f.StringVar(&o.gcApprove, "gc-approve", "", "`digest` of a set of orphans that the breaker holds: release exactly that set")

	f.StringVar(&o.discoveryAddress, "discovery-bind-address", ":8090", "`address` of the discovery and lease API")
	f.StringVar(&o.discoveryCert, "discovery-tls-cert-file", "", "`file` with the certificate chain of the API, which then speaks HTTPS; read again when it changes")
	f.StringVar(&o.discoveryKey, "discovery-tls-key-file", "", "`file` with the key of the certificate")
	f.BoolVar(&o.requireAuth, "require-auth", false, "refuse to start when the API has no token (DISCOVERY_TOKEN or --token-file)")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` of principals with their tokens, namespaces and selectors; read again when it changes")
	f.IntVar(&o.maxConnections, "discovery-max-connections", 4096, "connections to the API at one time (1 to 1000000)")
	f.DurationVar(&o.defaultLeaseTTL, "default-lease-ttl", 300*time.Second, "lease duration when a request names none (1s to max-lease-ttl)")
	f.DurationVar(&o.maxLeaseTTL, "max-lease-ttl", time.Hour, "longest lease duration a request may name (1s to 24h)")
	f.DurationVar(&o.maxLeaseLife, "max-lease-lifetime", 24*time.Hour, "longest life of a lease, renewals included (max-lease-ttl to 720h)")
	f.DurationVar(&o.startupHold, "lease-startup-hold", 0, "how long after the first grant could be made proxies with a cap are kept back, because leases of the process before may still be held on them (0s to 24h); from max-lease-ttl on no cap is passed across a change of the leader")
	f.DurationVar(&o.cooldownWindow, "cooldown-window", 10*time.Minute, "how long a banned or rate-limited proxy rests for a target (1s to 24h)")
	f.StringVar(&o.leasePrefer, "lease-prefer", "latency", "`order` among equally loaded proxies: latency or rotation")

	f.IntVar(&o.logLevel, "log-level", 0, "verbosity: 0 events worth a line, 1 each operation, 2 details, 5 requests and answers of cloud APIs")
	f.StringVar(&o.logFormat, "log-format", "json", "`format` of log lines: json or console")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	return f
}

// parse reads flags and environment. Errors name the flag and the value; help goes to out.
func parse(args []string, env func(string) (string, bool), out io.Writer) (*options, error) {
	o := &options{}
	f := o.flags(out)
	var errs []error
	f.VisitAll(func(fl *flag.Flag) {
		name := envName(fl.Name)
		if value, ok := env(name); ok {
			if err := f.Set(fl.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("%s=%q: %w", name, value, err))
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	o.discoveryToken, _ = env("DISCOVERY_TOKEN")
	return o, o.validate()
}

func envName(flagName string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

var (
	label        = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	digests      = regexp.MustCompile(`^[0-9a-f]{16}$`)
	installation = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
)

func (o *options) validate() error {
	var errs []error
	bad := func(name string, value any, want string) {
		errs = append(errs, fmt.Errorf("--%s=%v: want %s", name, value, want))
	}
	duration := func(name string, d, least, most time.Duration) {
		if d < least || d > most {
			bad(name, d, fmt.Sprintf("%s to %s", least, most))
		}
	}
	number := func(name string, n, least, most int) {
		if n < least || n > most {
			bad(name, n, fmt.Sprintf("%d to %d", least, most))
		}
	}
	address := func(name, a string, off bool) {
		if off && a == "0" {
			return
		}
		_, port, err := net.SplitHostPort(a)
		if n, convErr := strconv.Atoi(port); err != nil || convErr != nil || n < 0 || n > 65535 {
			bad(name, strconv.Quote(a), "[host]:port")
		}
	}
	oneOf := func(name, v string, allowed ...string) {
		for _, a := range allowed {
			if v == a {
				return
			}
		}
		bad(name, strconv.Quote(v), strings.Join(allowed, " or "))
	}

	if o.providersConfig == "" {
		bad("providers-config", `""`, "a file name")
	}
	if o.namespace != "" && !label.MatchString(o.namespace) {
		bad("namespace", strconv.Quote(o.namespace), "a namespace's name or nothing")
	}
	if o.installationID != "" && !installation.MatchString(o.installationID) {
		bad("installation-id", strconv.Quote(o.installationID), "1 to 63 characters of a-z, 0-9 and '-'")
	}
	if !label.MatchString(o.leaderID) {
		bad("leader-election-id", strconv.Quote(o.leaderID), "a DNS label")
	}
	if o.leaderNS != "" && !label.MatchString(o.leaderNS) {
		bad("leader-election-namespace", strconv.Quote(o.leaderNS), "a namespace's name or nothing")
	}
	if o.podName != "" && len(validation.IsDNS1123Subdomain(o.podName)) > 0 {
		bad("pod-name", strconv.Quote(o.podName), "a Pod's name or nothing")
	}
	if o.podNS != "" && !label.MatchString(o.podNS) {
		bad("pod-namespace", strconv.Quote(o.podNS), "a namespace's name or nothing")
	}
	if (o.discoveryCert == "") != (o.discoveryKey == "") {
		errs = append(errs, errors.New("--discovery-tls-cert-file and --discovery-tls-key-file: want both or neither"))
	}
	if o.metricsCerts != "" && !o.metricsSecure {
		bad("metrics-cert-dir", strconv.Quote(o.metricsCerts), "nothing without --metrics-secure")
	}
	duration("leader-election-lease-duration", o.leaseDuration, 5*time.Second, 5*time.Minute)
	address("metrics-bind-address", o.metricsAddress, true)
	address("health-probe-bind-address", o.probesAddress, true)
	address("pprof-bind-address", o.pprofAddress, true)
	number("max-concurrent-reconciles", o.workers, 1, 1000)
	duration("provisioning-poll", o.provisioningPoll, time.Second, 10*time.Minute)
	duration("deletion-poll", o.deletionPoll, time.Second, 10*time.Minute)
	duration("drift-poll", o.driftPoll, time.Second, time.Hour)
	duration("quota-retry", o.quotaRetry, time.Second, 24*time.Hour)
	duration("provisioning-timeout", o.provisioningTimeout, time.Minute, 24*time.Hour)
	duration("drain-timeout", o.drainTimeout, 0, 24*time.Hour)
	if _, err := proxy.ParseShare(o.maxReplacing); err != nil {
		errs = append(errs, fmt.Errorf("--max-replacing=%w", err))
	}
	duration("provider-call-timeout", o.callTimeout, time.Second, 10*time.Minute)
	duration("clock-skew-allowance", o.skewAllowance, 0, 10*time.Minute)
	duration("provider-check-interval", o.checkInterval, time.Second, time.Hour)
	duration("provider-health-report-interval", o.reportInterval, time.Second, 24*time.Hour)
	number("health-workers", o.healthWorkers, 1, 10_000)
	duration("health-tick", o.healthTick, 100*time.Millisecond, time.Minute)
	if o.judgeURL != "" {
		if err := health.CheckJudgeURL(o.judgeURL); err != nil {
			errs = append(errs, fmt.Errorf("--judge-url: %w", err)) // it may hold a token
		}
	}
	duration("min-report-interval", o.minReportInterval, time.Second, time.Hour)
	duration("gc-interval", o.gcInterval, 10*time.Second, 24*time.Hour)
	duration("gc-min-age", o.gcMinAge, time.Minute, 24*time.Hour)
	if o.gcApprove != "" && !digests.MatchString(o.gcApprove) {
		bad("gc-approve", strconv.Quote(o.gcApprove), "16 hex digits or nothing")
	}
	address("discovery-bind-address", o.discoveryAddress, false)
	number("discovery-max-connections", o.maxConnections, 1, 1_000_000)
	duration("max-lease-ttl", o.maxLeaseTTL, time.Second, 24*time.Hour)
	duration("default-lease-ttl", o.defaultLeaseTTL, time.Second, o.maxLeaseTTL)
	duration("max-lease-lifetime", o.maxLeaseLife, o.maxLeaseTTL, 720*time.Hour)
	duration("lease-startup-hold", o.startupHold, 0, 24*time.Hour)
	duration("cooldown-window", o.cooldownWindow, time.Second, 24*time.Hour)
	oneOf("lease-prefer", o.leasePrefer, "latency", "rotation")
	number("log-level", o.logLevel, 0, 5)
	oneOf("log-format", o.logFormat, "json", "console")
	if _, err := o.externalNetworks(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func environment(name string) (string, bool) { return os.LookupEnv(name) }
