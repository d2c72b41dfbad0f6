package main

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial/sshtest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// indiscreet are the parties that an operator talks to, which repeat whatever they are told.
type indiscreet struct {
	t      *testing.T
	s      *sentinels
	folder string
	// mood of the proxies.
	mood atomic.Int32
	// broken: the judge and the target of probes do not answer as they should.
	broken   atomic.Bool
	emulator *gcpemulator.Server
	port     int32
}

// The moods of proxies.
const (
	serving int32 = iota
	refusing
	failing
)

// repeated is all of a request in one line.
func repeated(r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	out := "you said " + r.Method + " " + r.URL.String()
	for name, values := range r.Header {
		out += " " + name + ": " + strings.Join(values, " ")
	}
	return out + " " + strings.ReplaceAll(string(body), "metadata", "it") // what is not called metadata is not known to be it
}

// server is one that notes what arrives.
func (x *indiscreet) server(secure bool, f http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.s.arrived(repeated(r))
		f(w, r)
	}))
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	x.t.Cleanup(s.Close)
	return s
}

func (x *indiscreet) file(name string, data []byte) string {
	x.t.Helper()
	path := filepath.Join(x.folder, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		x.t.Fatal(err)
	}
	return path
}

// proxies serve at n addresses of the loopback and one port. They have nothing in common with the addresses of other tests.
func (x *indiscreet) proxies(subnet, n int) (addresses []string) {
	for i := range n {
		address := fmt.Sprintf("127.0.%d.%d", subnet, i+1)
		l, err := (&net.ListenConfig{}).Listen(x.t.Context(), "tcp", fmt.Sprintf("%s:%d", address, x.port))
		if err != nil {
			x.t.Fatal(err)
		}
		x.port = int32(l.Addr().(*net.TCPAddr).Port)
		s := httptest.NewUnstartedServer(http.HandlerFunc(x.proxy))
		_ = s.Listener.Close()
		s.Listener = l
		s.Start()
		x.t.Cleanup(s.Close)
		addresses = append(addresses, address)
	}
	return addresses
}

func (x *indiscreet) proxy(w http.ResponseWriter, r *http.Request) {
	said := repeated(r)
	x.s.arrived(decoded(said))
	switch x.mood.Load() {
	case serving:
		w.WriteHeader(http.StatusNoContent)
	case refusing:
		w.Header().Set("Proxy-Authenticate", "Basic realm="+said)
		http.Error(w, said, http.StatusProxyAuthRequired)
	default:
		w.Header().Set("Location", "http://elsewhere.test/?"+url.QueryEscape(said))
		http.Error(w, said, http.StatusBadGateway)
	}
}

// decoded is a text with what its basic credentials stand for.
func decoded(text string) string {
	r := &http.Request{Header: http.Header{}}
	if _, after, ok := strings.Cut(text, "Basic "); ok {
		r.Header.Set("Authorization", "Basic "+strings.Fields(after)[0])
		user, password, _ := r.BasicAuth()
		text += " " + user + " " + password
	}
	return text
}

// computeEngine is the emulator behind a front that repeats what it is asked to create in project-q, and in a mood all else.
func (x *indiscreet) computeEngine(addresses []string) (endpoint string) {
	var err error
	x.emulator, err = gcpemulator.New(gcpemulator.Options{
		Clock: earlier{}, Addresses: addresses, Projects: []string{"project-a", "project-b", "project-q"},
	}).Listen(x.t.Context(), "127.0.0.1:0")
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = x.emulator.Close() })
	at, err := url.Parse(x.emulator.URL)
	if err != nil {
		x.t.Fatal(err)
	}
	next := httputil.NewSingleHostReverseProxy(at)
	return x.server(false, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "project-q") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		said := repeated(r)
		// First what is worst: messages are cut.
		_, value, _ := strings.Cut(said, `"user-data","value":`)
		said = "bad value " + value + " " + said
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": 400, "message": said, "errors": []any{map[string]any{"reason": "invalid", "message": said}}}})
	}).URL
}

// accountKey is a key file of a service account, whose tokens are given out or refused.
func (x *indiscreet) accountKey(name string, gives bool) (path string) {
	x.t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		x.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		x.t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	x.s.is("the private key of "+name, strings.Split(text, "\n")[3])
	tokens := x.server(false, func(w http.ResponseWriter, r *http.Request) {
		if !gives {
			http.Error(w, `{"error":"invalid_grant","error_description":"`+repeated(r)+`"}`, http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, x.s.at("the access token of "+name))
	})
	data, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": name + "@project-a.iam.gserviceaccount.com", "private_key_id": x.s.at("the key ID of " + name),
		"token_uri": tokens.URL, "private_key": text,
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return x.file(name+".json", data)
}

// podCluster is an API server that accepts nobody, as a kubeconfig.
func (x *indiscreet) podCluster() (path string) {
	x.t.Helper()
	s := x.server(true, func(w http.ResponseWriter, r *http.Request) { http.Error(w, repeated(r), http.StatusUnauthorized) })
	access := clientcmdapi.NewConfig()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	access.Clusters["c"] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: ca}
	access.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: x.s.at("the token of a kubeconfig")}
	access.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	access.CurrentContext = "x"
	path = filepath.Join(x.folder, "kubeconfig-of-pods")
	if err := clientcmd.WriteToFile(*access, path); err != nil {
		x.t.Fatal(err)
	}
	return path
}

// hypervisors are three: one with a daemon, one that does not take the key, one with a key that is none. The image's server
// refuses, in the words of the request.
func (x *indiscreet) hypervisors() (block string) {
	x.t.Helper()
	dir, err := os.MkdirTemp("", "hv") // the paths of sockets must be short
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	api, err := libvirttest.NewDaemon().Speak(nil)
	if err != nil {
		x.t.Fatal(err)
	}
	wiretest.New(x.t, api).Listen(x.t, filepath.Join(dir, "a"))
	key, _ := sshtest.NewKeyFile(x.t, sshtest.Ed25519, "")
	x.s.is("an SSH key", strings.Split(string(key), "\n")[2])
	over := func(name, key string) string {
		server := sshtest.Start(x.t, sshtest.Options{Authorized: []ssh.PublicKey{sshtest.NewKey(x.t, sshtest.Ed25519).PublicKey()}})
		known := x.file("known_hosts_of_"+name, []byte(knownhosts.Line([]string{server.Address()}, server.HostKey())+"\n"))
		return fmt.Sprintf("    - {name: %s, address: %q, user: %s, keyFile: %s, knownHostsFile: %s}\n", name, server.Address(), sshtest.DefaultUser, key, known)
	}
	broken := x.file("broken-key", []byte("-----BEGIN OPENSSH PRIVATE KEY-----\n"+x.s.at("an SSH key that is none")+"\n-----END OPENSSH PRIVATE KEY-----\n"))
	images := x.server(false, func(w http.ResponseWriter, r *http.Request) {
		x.s.arrived(decoded(repeated(r)))
		w.Header().Set("Location", r.URL.String())
		http.Error(w, repeated(r), http.StatusForbidden)
	})
	image := strings.Replace(images.URL, "://", "://"+x.s.at("the user of an image")+":"+x.s.at("the password of an image")+"@", 1) +
		"/" + "disk.raw?signature=" + x.s.at("the signature of an image")
	return "    hosts:\n    - {name: hv-a, socket: " + filepath.Join(dir, "a") + "}\n" + over("hv-b", x.file("ssh-key", key)) + over("hv-c", broken) +
		"    images:\n      debian: {url: \"" + image + "\", sha256: \"" + strings.Repeat("0", 64) + "\", format: raw}\n" +
		"    machineTypes:\n      small: {vcpus: 1, memoryMiB: 512, diskGiB: 4, domainType: qemu}\n"
}
