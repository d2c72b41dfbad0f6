{{- /* Secrets that the operator reads from files. Those of providers may come later; the API's must be there. */ -}}
{{- define "operator.secretVolumes" -}}
{{- if .Values.providers.kvm.enabled }}
- {name: kvm-ssh, path: /etc/kvm-ssh, secret: {{ .Values.providers.kvm.existingSecret }}, optional: true}
{{- end }}
{{- if .Values.providers.gcp.enabled }}
- {name: gcp-credentials, path: /etc/gcp, secret: {{ .Values.providers.gcp.existingSecret }}, optional: true}
{{- end }}
{{- with .Values.discovery.tls.existingSecret }}
- {name: discovery-tls, path: /etc/discovery-tls, secret: {{ . }}, optional: false}
{{- end }}
{{- with .Values.discovery.namedTokens.existingSecret }}
- {name: tokens, path: /etc/discovery-tokens, secret: {{ . }}, optional: false}
{{- end }}
{{- end -}}
