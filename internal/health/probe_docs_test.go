package health

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const docsPath = "../../docs/unhealthy.md"

// docs is docs/unhealthy.md: its text, and the messages that its tables list in the section of each reason.
type docs struct {
	text     string
	messages map[string][]listed
}

// listed is a message of the page, in which … stands for anything.
type listed struct {
	text    string
	pattern *regexp.Regexp
}

var listedMessage = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

func readDocs(t *testing.T) docs {
	t.Helper()
	data, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	d := docs{text: flat(string(data)), messages: map[string][]listed{}}
	for _, section := range strings.Split(string(data), "\n## ")[1:] {
		reason, body, _ := strings.Cut(section, "\n")
		for _, m := range listedMessage.FindAllStringSubmatch(body, -1) {
			quoted := strings.ReplaceAll(regexp.QuoteMeta(m[1]), "…", ".+")
			d.messages[reason] = append(d.messages[reason], listed{text: m[1], pattern: regexp.MustCompile("^" + quoted + "$")})
		}
	}
	return d
}

// flat is s without line breaks and marks of code.
func flat(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "`", "")), " ")
}

// has reports whether the section of reason lists message.
func (d docs) has(reason, message string) bool {
	for _, l := range d.messages[reason] {
		if l.pattern.MatchString(message) {
			return true
		}
	}
	return false
}

// stringsOf returns the string literals of a file, those of imports and tags excepted.
func stringsOf(t *testing.T, path string) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				s, err := strconv.Unquote(n.Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, s)
			}
		}
		return true
	})
	return all
}

// Every reason of the Healthy condition has a section with at least one message, except the one of success.
func TestDocsHaveASectionForEveryReason(t *testing.T) {
	d := readDocs(t)
	reasons := healthReasons(t)
	if len(reasons) < 9 {
		t.Fatalf("the API knows the reasons %q alone", reasons)
	}
	for _, reason := range reasons {
		if reason != v1alpha1.ReasonProbeSucceeded && len(d.messages[reason]) == 0 {
			t.Errorf("%s has no section %q with a table of messages", docsPath, reason)
		}
	}
}

// healthReasons returns the constants under the comment "Reasons of the Healthy condition".
func healthReasons(t *testing.T) (reasons []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1alpha1/names.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		group, is := d.(*ast.GenDecl)
		if !is || !strings.HasPrefix(group.Doc.Text(), "Reasons of the Healthy condition") {
			continue
		}
		for _, spec := range group.Specs {
			for _, v := range spec.(*ast.ValueSpec).Values {
				reason, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				reasons = append(reasons, reason)
			}
		}
	}
	return reasons
}

var verb = regexp.MustCompile(`%[a-z]`)

// Whatever words a message can be put together from, the page has them: no message is added without a word about it.
func TestDocsHaveTheWordsOfEveryMessage(t *testing.T) {
	d := readDocs(t)
	words := 0
	for _, path := range []string{
		"reasons.go", "dial.go", "dialpolicy.go", "roots.go", "probe.go", "judge.go", "cause.go",
		"../controller/proxy/health.go", "../controller/proxy/unhealthy.go",
	} {
		for _, literal := range stringsOf(t, path) {
			for _, part := range verb.Split(literal, -1) {
				part = strings.Trim(part, " :,;")
				if !strings.Contains(part, " ") || part == "remote error" {
					continue // the key of a log line, a network, what an error is told by
				}
				words++
				if !strings.Contains(d.text, flat(part)) {
					t.Errorf("%s does not mention %q of %s", docsPath, part, path)
				}
			}
		}
	}
	if words < 40 {
		t.Errorf("%d messages were found, which cannot be all", words)
	}
}

// The messages that the page lists are those that there are, each under its reason.
func TestDocsListTheMessagesThatThereAre(t *testing.T) {
	d := readDocs(t)
	used := map[string]bool{}
	for _, f := range failures(t) {
		found := false
		for _, l := range d.messages[f.reason] {
			if l.pattern.MatchString(f.message) {
				found, used[f.reason+l.text] = true, true
			}
		}
		if !found {
			t.Errorf("%s does not list %q under %s", docsPath, f.message, f.reason)
		}
	}
	for reason, all := range d.messages {
		for _, l := range all {
			if !used[reason+l.text] && isReason(t, reason) {
				t.Errorf("%s lists %q under %s, which nothing says", docsPath, l.text, reason)
			}
		}
	}
}

func isReason(t *testing.T, section string) bool {
	t.Helper()
	for _, reason := range healthReasons(t) {
		if reason == section {
			return true
		}
	}
	return false
}

// failures returns one of each message, made by the very functions that make them.
func failures(t *testing.T) (all []failure) {
	t.Helper()
	add := func(f *failure) {
		if !f.inconclusive {
			all = append(all, *f)
		}
	}
	e := fleet.Endpoint{Scheme: "http", Host: "2001:db8::1", Port: 3128}
	for _, err := range []error{
		syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ECONNRESET, syscall.EPERM, syscall.ETIMEDOUT, syscall.EMFILE,
		&net.DNSError{IsNotFound: true}, &net.DNSError{}, &net.DNSError{IsTimeout: true},
		&refusedAddressError{cause: errors.New("the endpoint resolves to something that is not an address")},
	} {
		add(dialFailure(t.Context(), e, err))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	add(dialFailure(ended, e, context.Canceled))
	for _, address := range []string{"127.0.0.1", "fe80::1", "0.0.0.0", "100.100.100.200"} {
		add(dialFailure(t.Context(), e, &refusedAddressError{cause: RefuseInternal(nil)(netip.MustParseAddr(address))}))
	}
	for _, s := range []stage{stageConnect, stageRequest, stageAnswer, stageBody} {
		for _, err := range []error{
			os.ErrDeadlineExceeded, errBudget, errInterim, errMalformed, io.EOF, io.ErrUnexpectedEOF,
			syscall.ECONNRESET, syscall.EPIPE, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
		} {
			add(responseFailure(s, err))
		}
	}
	for _, err := range []error{
		os.ErrDeadlineExceeded, io.EOF, syscall.ECONNRESET, errors.New("odd"),
		x509.HostnameError{}, x509.UnknownAuthorityError{}, x509.SystemRootsError{}, tls.RecordHeaderError{},
		x509.CertificateInvalidError{Reason: x509.Expired}, x509.CertificateInvalidError{Reason: x509.TooManyConstraints},
		&net.OpError{Op: "remote error", Err: tls.AlertError(70)},
	} {
		add(tlsFailure("example.com", err))
	}
	add(&failure{reason: v1alpha1.ReasonTLSFailed, message: errNoCertificate.Error()})
	add(proxyAuthFailure(nil))
	add(proxyAuthFailure(&provider.Credentials{}))
	for _, status := range []int{http.StatusForbidden, 799} {
		add(refusedFailure(status))
		add(statusFailure(status, 0, true))
		add(statusFailure(status, 204, false))
	}
	r := NewProber(ProberOptions{}).Probe(t.Context(), Target{Probe: v1alpha1.Probe{URL: "ftp://example.com"}})
	add(&failure{reason: r.Reason, message: r.Message})

	add(&failure{reason: v1alpha1.ReasonSharedCauseSuspected, message: messageHeld})
	add(&failure{reason: v1alpha1.ReasonNotProbed, message: messageNotProbed})
	add(&failure{reason: v1alpha1.ReasonNotProbed, message: messageLapsed})
	for _, literal := range stringsOf(t, "../controller/proxy/health.go") {
		if strings.Contains(literal, " ") {
			add(&failure{reason: v1alpha1.ReasonNotProbed, message: literal})
		}
	}
	return all
}
