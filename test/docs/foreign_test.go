package docs

// What pages name and other programs own.
var (
	foreign = []string{
		// Kubernetes and its kin.
		"subPath", "imagePullSecrets", "holderIdentity", "renewTime", "podMonitorSelector", "podMonitorNamespaceSelector", "ruleSelector",
		"Terminating",                       // a phase of namespaces
		"status.patch",                      // a span
		"controllerGroup", "controllerKind", // keys of controller-runtime's log lines
		// Google Cloud's permissions, a constraint and variables.
		"setLabels", "setMetadata", "useExternalIp", "updatePolicy", "setServiceAccount", "serviceAccounts", "actAs", "vmExternalIpAccess",
		"GOOGLE_APPLICATION_CREDENTIALS", "CLUSTER_PROJECT",
		"ForceCommand",          // sshd_config
		"WithTransport",         // Colly
		"disableNameSuffixHash", // kustomize
	}

	foreignFlags = []string{
		"--force", "--delete-emptydir-data", // kubectl
		"--source",                                                                               // virsh
		"--proxy-user", "--cacert", "--insecure", "--connect-timeout", "--noproxy", "--max-time", // curl
	}

	// foreignGroups are those of kinds that a bare API server does not have.
	foreignGroups = []string{"kustomize.config.k8s.io", "monitoring.coreos.com"}

	// madeByReaders is the folder that comes into being by following a page.
	madeByReaders = "config/samples/mine"
)
