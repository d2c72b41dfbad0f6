package kvm_test

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kdomanski/iso9660"
	"sigs.k8s.io/yaml"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
)

// filesOf reads an image as a guest would.
func filesOf(t *testing.T, iso []byte) (label string, files map[string]string) {
	t.Helper()
	img, err := iso9660.OpenImage(bytes.NewReader(iso))
	if err != nil {
		t.Fatal(err)
	}
	if label, err = img.Label(); err != nil {
		t.Fatal(err)
	}
	root, err := img.RootDir()
	if err != nil {
		t.Fatal(err)
	}
	children, err := root.GetChildren()
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for _, c := range children {
		content, err := io.ReadAll(c.Reader())
		if err != nil {
			t.Fatal(err)
		}
		files[c.Name()] = string(content)
	}
	return strings.TrimRight(label, " \x00"), files
}

func TestTheSeed(t *testing.T) {
	for reason, data := range map[string]string{
		"plain": "#cloud-config\nruncmd: [true]\n", "nothing": "", "no line break at its end": "#!/bin/sh", "line ends of Windows": "#cloud-config\r\n",
		"not ASCII": "#cloud-config\n# ä😀\u0000\n", "a sector": strings.Repeat("x", 2048), "a sector and a byte": strings.Repeat("x", 2049), "the largest": strings.Repeat("y", 2<<20),
	} {
		for _, agent := range []bool{false, true} {
			iso, err := kvm.SeedISO("id-1", "proxy-a", data, agent)
			if err != nil {
				t.Fatalf("%s: %v", reason, err)
			}
			label, files := filesOf(t, iso)
			if label != "cidata" || files["user-data"] != data {
				t.Errorf("%s: label %q, %d bytes of user-data, want %d", reason, label, len(files["user-data"]), len(data))
			}
			var meta map[string]string
			if err := yaml.UnmarshalStrict([]byte(files["meta-data"]), &meta); err != nil || len(meta) != 2 || meta["instance-id"] != "id-1" || meta["local-hostname"] != "proxy-a" {
				t.Errorf("%s: meta-data %q (%v)", reason, files["meta-data"], err)
			}
			vendor, ok := files["vendor-data"]
			if ok != agent || agent && (!strings.HasPrefix(vendor, "#cloud-config\n") || !strings.Contains(vendor, "qemu-guest-agent")) {
				t.Errorf("%s: vendor-data %q", reason, vendor)
			}
			if want := 2; len(files) != want && !agent || len(files) != want+1 && agent {
				t.Errorf("%s: files %v", reason, len(files))
			}
		}
	}
}

// cloud-init runs user-data once for each instance-id: it is the domain's, whenever the seed is made, and each attempt's own.
func TestTheSeedOfADomain(t *testing.T) {
	w := newT(t)
	w.extra = "installGuestAgent: true\n"
	p := w.provider()
	req, ref := w.made(p)
	read := func() map[string]string {
		iso, ok := w.daemons[hostA].Volume(w.volume(ref, "seed.iso"))
		if !ok {
			t.Fatal("there is no seed")
		}
		_, files := filesOf(t, iso)
		return files
	}
	first := read()
	var meta map[string]string
	if err := yaml.Unmarshal([]byte(first["meta-data"]), &meta); err != nil || meta["instance-id"] != w.only().UUID || meta["local-hostname"] != req.Name {
		t.Errorf("meta-data %q (%v)", first["meta-data"], err)
	}
	if first["user-data"] != req.CloudInit || first["vendor-data"] == "" {
		t.Errorf("files %v", first)
	}
	must(w.t, p.Delete(t.Context(), ref))
	ref = w.ref(req, 2)
	must(w.t, p.Create(t.Context(), req, ref))
	if second := read(); second["meta-data"] == first["meta-data"] || second["user-data"] != first["user-data"] {
		t.Errorf("the next attempt's files %v", second)
	}
}

// What is written on the way holds secrets.
func TestTheSeedLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	if _, err := kvm.SeedISO("i", "h", "sentinel", true); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v (%v)", left, err)
	}
	t.Setenv("TMPDIR", folder+"/none")
	if iso, err := kvm.SeedISO("i", "h", "sentinel", true); err == nil || iso != nil || strings.Contains(err.Error(), "sentinel") {
		t.Errorf("without a folder: %d bytes, %v", len(iso), err)
	}
}

// Nothing of the instance is in the seed's way to a guest but what is listed here.
func TestTheSeedHasNoCredentials(t *testing.T) {
	w := newT(t)
	w.extra = "clients: [192.0.2.0/24]\n"
	req := w.request()
	req.Credentials.Password = "sentinel-password"
	must(w.t, w.provider().Create(t.Context(), req, w.ref(req, 1)))
	d := w.daemons[hostA]
	for _, v := range d.Volumes() {
		if content, _ := d.Volume(v); bytes.Contains(content, []byte("sentinel")) {
			t.Errorf("%s holds the password, which no template asked for", v)
		}
	}
	if e := w.only(); strings.Contains(e.XML, "sentinel") || !slices.Contains(d.Volumes(), w.volume(w.ref(req, 1), "seed.iso")) {
		t.Error("the domain holds the password")
	}
}
