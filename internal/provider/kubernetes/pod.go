package kubernetes

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	container = "squid"
	portName  = "proxy"
	runVolume = "run"
	// authVolume is there exactly when the proxy asks for credentials.
	authVolume = "auth"
	// proxyUser is "proxy" of Debian and Ubuntu.
	proxyUser = 13

	// stopGrace is more than the second that Squid gives its clients.
	stopGrace = 5
	// unprivilegedPorts begin here unless a Pod says otherwise.
	unprivilegedPorts = 1024
)

// meta is what the Pod and the Secret of an instance have in common.
func (p *Provider) meta(at place, req provider.CreateRequest, m provider.Marks) metav1.ObjectMeta {
	o := metav1.ObjectMeta{Namespace: at.namespace, Name: at.name}
	putMarks(&o, m)
	// An owner in another namespace or cluster cannot be found, and Kubernetes collects what it owns.
	if at.namespace == req.Namespace && p.config.Kubeconfig == "" {
		o.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion().String(), Kind: "Proxy", Name: req.ProxyName, UID: types.UID(req.UID), Controller: ptr.To(true),
		}}
	}
	return o
}

// secret is what Squid's helper reads.
func (p *Provider) secret(at place, req provider.CreateRequest, m provider.Marks) (*corev1.Secret, error) {
	hashed, err := htpasswd(*req.Credentials)
	if err != nil {
		return nil, err
	}
	s := &corev1.Secret{ObjectMeta: p.meta(at, req, m), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{authFile: hashed}}
	s.Annotations[annotationRevision] = req.Credentials.Revision
	return s, nil
}

// pod is the whole instance, except for the hashes.
func (p *Provider) pod(at place, req provider.CreateRequest, m provider.Marks) *corev1.Pod {
	image, _ := p.image(req)
	need, _ := p.resources(req)
	squid := p.squid
	squid.port, squid.auth = req.Port, req.Credentials != nil
	pod := &corev1.Pod{ObjectMeta: p.meta(at, req, m)}
	for key, value := range p.config.Annotations {
		pod.Annotations[key] = value
	}
	pod.Spec = corev1.PodSpec{
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](stopGrace),
		RestartPolicy:                 corev1.RestartPolicyAlways,
		NodeSelector:                  maps.Clone(p.config.NodeSelector),
		Tolerations:                   p.config.Tolerations,
		TopologySpreadConstraints:     p.spread(),
		Affinity:                      affinity(req.Placement),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](proxyUser), RunAsGroup: ptr.To[int64](proxyUser), FSGroup: ptr.To[int64](proxyUser),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name:      container,
			Image:     image,
			Command:   command(runDir),
			Env:       []corev1.EnvVar{{Name: configEnv, Value: squid.config()}},
			Ports:     []corev1.ContainerPort{{Name: portName, ContainerPort: req.Port, Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{Requests: need.Requests, Limits: need.Limits},
			// Until it has started once it may take a minute; then half a minute of silence is its end. One probe that a busy
			// node has no time for says nothing.
			StartupProbe:   probe(1, 60),
			ReadinessProbe: probe(5, 2),
			LivenessProbe:  probe(10, 3),
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: runVolume, MountPath: runDir}},
		}},
		Volumes: []corev1.Volume{{Name: runVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("4Mi")),
		}}}},
	}
	if req.Port < unprivilegedPorts {
		pod.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
	}
	if req.Credentials != nil {
		pod.Annotations[annotationRevision] = req.Credentials.Revision
		c := &pod.Spec.Containers[0]
		// The whole directory, not the file alone: what is mounted as a file is never renewed.
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: authVolume, MountPath: authDir, ReadOnly: true})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: authVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: at.name, DefaultMode: ptr.To[int32](0o440)},
		}})
	}
	return pod
}

func probe(period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(portName)}},
		PeriodSeconds: period, TimeoutSeconds: 5, FailureThreshold: failures,
	}
}

func (p *Provider) spread() (out []corev1.TopologySpreadConstraint) {
	for _, s := range p.config.TopologySpreadConstraints {
		out = append(out, corev1.TopologySpreadConstraint{
			TopologyKey: s.TopologyKey, MaxSkew: s.MaxSkew, WhenUnsatisfiable: s.WhenUnsatisfiable,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				provider.LabelManaged: provider.LabelManagedValue, provider.LabelInstallation: p.owner.Installation,
			}},
		})
	}
	return out
}

// affinity binds a Pod to the region and zone of its placement.
func affinity(at provider.Placement) *corev1.Affinity {
	var terms []corev1.NodeSelectorRequirement
	for _, t := range []struct{ key, value string }{{corev1.LabelTopologyRegion, at.Region}, {corev1.LabelTopologyZone, at.Zone}} {
		if t.value != "" {
			terms = append(terms, corev1.NodeSelectorRequirement{Key: t.key, Operator: corev1.NodeSelectorOpIn, Values: []string{t.value}})
		}
	}
	if terms == nil {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: terms}},
	}}}
}
