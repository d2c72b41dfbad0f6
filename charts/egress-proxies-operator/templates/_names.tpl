{{- define "operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{ .Release.Name }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* What the other objects' names begin with: egress-proxies-discovery belongs to egress-proxies-operator. */ -}}
{{- define "operator.prefix" -}}
{{ include "operator.fullname" . | trimSuffix "-operator" }}
{{- end -}}

{{- define "operator.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "operator.labels" -}}
{{ include "operator.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | trunc 63 | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end -}}

{{- define "operator.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "operator.tokenSecret" -}}
{{ default (printf "%s-discovery" (include "operator.prefix" .)) .Values.discovery.token.existingSecret }}
{{- end -}}

{{- /* 90 % of the memory limit, as Go writes it. The schema lets in no other units. */ -}}
{{- define "operator.goMemLimit" -}}
{{- $limit := .Values.resources.limits.memory -}}
{{- if .Values.goMemLimit -}}
{{ .Values.goMemLimit }}
{{- else if hasSuffix "Gi" $limit -}}
{{ div (mul (trimSuffix "Gi" $limit | int) 1024 90) 100 }}MiB
{{- else -}}
{{ div (mul (trimSuffix "Mi" $limit | int) 90) 100 }}MiB
{{- end -}}
{{- end -}}
