{{- /* What a schema cannot say: values that do not fit together. Every message names the value to change. */ -}}
{{- define "operator.checks" -}}
{{- $fullname := include "operator.fullname" . -}}
{{- if gt (len $fullname) 46 -}}
{{- fail (printf "the name %q of the objects is %d characters long, at most 46 leave room for what is appended: choose a shorter release name, or set fullnameOverride" $fullname (len $fullname)) -}}
{{- end -}}
{{- $seen := dict -}}
{{- range $i, $entry := .Values.providers.entries -}}
{{- if hasKey $seen $entry.name -}}
{{- fail (printf "providers.entries[%d]: the name %q is taken by another entry" $i $entry.name) -}}
{{- end -}}
{{- $_ := set $seen $entry.name true -}}
{{- if not (hasKey $entry $entry.type) -}}
{{- fail (printf "providers.entries[%d] (%s): type %s needs the block %q" $i $entry.name $entry.type $entry.type) -}}
{{- end -}}
{{- range $other := list "gcp" "kubernetes" "kvm" -}}
{{- if and (ne $other $entry.type) (hasKey $entry $other) -}}
{{- fail (printf "providers.entries[%d] (%s): the block %q does not belong to type %s" $i $entry.name $other $entry.type) -}}
{{- end -}}
{{- end -}}
{{- $block := index $entry $entry.type -}}
{{- if and (eq $entry.type "kubernetes") (not $block.kubeconfig) (not $.Values.providers.kubernetes.enabled) -}}
{{- fail (printf "providers.entries[%d] (%s) makes Pods in this cluster: set providers.kubernetes.enabled, which grants the rights" $i $entry.name) -}}
{{- end -}}
{{- end -}}
{{- with .Values.providers.kubernetes -}}
{{- if and .createNamespaces (not .namespaces) -}}
{{- fail "providers.kubernetes.createNamespaces: providers.kubernetes.namespaces names none" -}}
{{- end -}}
{{- if and (not .enabled) .namespaces -}}
{{- fail "providers.kubernetes.namespaces: set providers.kubernetes.enabled, too" -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.discovery.requireAuth) .Values.discovery.token.existingSecret -}}
{{- fail "discovery.token.existingSecret: discovery.requireAuth is off, which opens the API to whoever reaches it" -}}
{{- end -}}
{{- if and (not .Values.discovery.requireAuth) .Values.discovery.namedTokens.existingSecret -}}
{{- fail "discovery.namedTokens.existingSecret: discovery.requireAuth is off, which opens the API to whoever reaches it" -}}
{{- end -}}
{{- if and .Values.podDisruptionBudget.enabled (gt (int .Values.podDisruptionBudget.maxUnavailable) (int .Values.replicas)) -}}
{{- fail (printf "podDisruptionBudget.maxUnavailable: %d, but there are %d replicas" (int .Values.podDisruptionBudget.maxUnavailable) (int .Values.replicas)) -}}
{{- end -}}
{{- end -}}
