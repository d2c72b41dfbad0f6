package kubernetes

// What the manifests have to grant where this provider is used, in the namespaces of its entries: config/components. The
// review of its own rights and the server's version are open to every service account.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;create;update;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=list
