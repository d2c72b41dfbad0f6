package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	sshSecret = "kvm-ssh"
	sshFolder = "/etc/kvm-ssh"
)

// TestTheComponentForHypervisorsMountsTheKey: the operator, which is not root, may read it, and starts while it is missing.
// Nothing else differs from the base but the configuration.
func TestTheComponentForHypervisorsMountsTheKey(t *testing.T) {
	base, with := kustomize(t, "default"), kustomize(t, "samples/overlay-kvm")
	was, is := base.deployment(t).Spec.Template.Spec, with.deployment(t).Spec.Template.Spec

	volume := slices.IndexFunc(is.Volumes, func(v corev1.Volume) bool { return v.Name == sshSecret })
	if volume < 0 {
		t.Fatalf("no volume %s in %+v", sshSecret, is.Volumes)
	}
	want := &corev1.SecretVolumeSource{SecretName: sshSecret, Optional: ptr.To(true), DefaultMode: ptr.To[int32](0o440)}
	if got := is.Volumes[volume].Secret; !reflect.DeepEqual(got, want) {
		t.Errorf("the volume is %+v, want %+v", got, want)
	}
	if is.SecurityContext.FSGroup == nil || *is.SecurityContext.FSGroup != *is.SecurityContext.RunAsGroup {
		t.Errorf("the files belong to group %v, the operator is in %d", is.SecurityContext.FSGroup, *is.SecurityContext.RunAsGroup)
	}
	mounts := is.Containers[0].VolumeMounts
	mount := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == sshSecret })
	if mount < 0 || !reflect.DeepEqual(mounts[mount], corev1.VolumeMount{Name: sshSecret, MountPath: sshFolder, ReadOnly: true}) {
		t.Fatalf("mounted are %+v", mounts)
	}

	is.Volumes = slices.Delete(is.Volumes, volume, volume+1)
	is.Containers[0].VolumeMounts = slices.Delete(mounts, mount, mount+1)
	is.SecurityContext.FSGroup = nil
	// The images' names are those of the overlay, those of the generated objects follow from what is in them.
	is.Containers[0].Image = was.Containers[0].Image
	generated := func(spec *corev1.PodSpec) {
		for i := range spec.Volumes {
			if c := spec.Volumes[i].ConfigMap; c != nil {
				c.Name = ""
			}
		}
		for _, e := range spec.Containers[0].Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				e.ValueFrom.SecretKeyRef.Name = ""
			}
		}
	}
	generated(&was)
	generated(&is)
	byName := func(a, b corev1.Volume) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(was.Volumes, byName)
	slices.SortFunc(is.Volumes, byName)
	if !reflect.DeepEqual(was, is) {
		t.Errorf("the Pod is otherwise\n%+v\nwant\n%+v", is, was)
	}
	if err := newClient(t, config).Create(t.Context(), install(t, newClient(t, config), "samples/overlay-kvm").pod(t, "with-key"), client.DryRunAll); err != nil {
		t.Error(err)
	}
}

// TestTheFilesOfTheSecretAreThoseOfTheSample: the entry names what the component mounts and `make kvm-ssh-secret` fills in.
func TestTheFilesOfTheSecretAreThoseOfTheSample(t *testing.T) {
	text := find[corev1.ConfigMap](t, kustomize(t, "samples/overlay-kvm"), "ConfigMap", "egress-proxies-providers-").Data["providers.yaml"]
	for _, want := range []string{"keyFile: " + sshFolder + "/key\n", "knownHostsFile: " + sshFolder + "/known_hosts\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// makeSecret runs `make kvm-ssh-secret` as an administrator of the cluster.
func makeSecret(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	return makeTarget(t, "kvm-ssh-secret", args...)
}

// makeTarget runs a target of the Makefile as an administrator of the cluster.
func makeTarget(t *testing.T, target string, args ...string) (said string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"--silent", "--no-print-directory", "-C", root, target}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+adminKubeconfig(t), "MAKEFLAGS=", "KEY=", "KNOWN_HOSTS=", "NAMESPACE=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const (
	aKey       = "-----BEGIN OPENSSH PRIVATE KEY-----\nsentinel\n-----END OPENSSH PRIVATE KEY-----\n"
	anotherKey = "-----BEGIN RSA PRIVATE KEY-----\nsentinel\n-----END RSA PRIVATE KEY-----\n"
	aHost      = "kvm1.example.net ssh-ed25519 AAAA\n"
)

func TestMakeKVMSSHSecret(t *testing.T) {
	c := newClient(t, config)
	must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})))
	elsewhere := newNamespace(t, c)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	key, another, known, empty := file("id", aKey), file("id2", anotherKey), file("hosts", aHost), file("empty", "")

	for _, made := range []struct{ namespace, key, holds string }{
		{system, key, aKey}, {system, another, anotherKey}, {elsewhere, key, aKey},
	} {
		args := []string{"KEY=" + made.key, "KNOWN_HOSTS=" + known}
		if made.namespace != system {
			args = append(args, "NAMESPACE="+made.namespace)
		}
		said, err := makeSecret(t, args...)
		if err != nil || strings.Contains(said, "sentinel") {
			t.Fatalf("%v\n%s", err, said)
		}
		s := &corev1.Secret{}
		must(t, c.Get(t.Context(), client.ObjectKey{Namespace: made.namespace, Name: sshSecret}, s))
		want := map[string][]byte{"key": []byte(made.holds), "known_hosts": []byte(aHost)}
		if !reflect.DeepEqual(s.Data, want) || len(s.Annotations) > 0 {
			t.Errorf("%v: %q, annotations %v", made, s.Data, s.Annotations)
		}
	}

	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "KEY names no file"},
		{[]string{"KEY=" + key}, "KNOWN_HOSTS names no file"},
		{[]string{"KEY=" + key + "x", "KNOWN_HOSTS=" + known}, "KEY: no file " + key + "x"},
		{[]string{"KEY=" + dir, "KNOWN_HOSTS=" + known}, "KEY: no file " + dir},
		{[]string{"KEY=" + empty, "KNOWN_HOSTS=" + known}, "KEY: " + empty + " is empty"},
		{[]string{"KEY=" + key, "KNOWN_HOSTS=" + empty}, "KNOWN_HOSTS: " + empty + " is empty"},
		{[]string{"KEY=" + known, "KNOWN_HOSTS=" + known}, "KEY: " + known + " is no private key"},
		{[]string{"KEY=" + key, "KNOWN_HOSTS=" + key}, "KNOWN_HOSTS: " + key + " is no known_hosts file"},
	} {
		said, err := makeSecret(t, c.args...)
		if err == nil || !strings.Contains(said, "kvm-ssh-secret: "+c.says) || strings.Contains(said, "applied") {
			t.Errorf("%q: %v, %q", c.args, err, said)
		}
	}
}
