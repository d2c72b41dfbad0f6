{{- /* A document of the generated roles under the names of this release. Takes (list . kind file name). */ -}}
{{- define "operator.role" -}}
{{- $top := index . 0 -}}
{{- range $doc := $top.Files.Get (index . 2) | splitList "\n---\n" -}}
{{- $role := $doc | trimPrefix "---\n" | fromYaml -}}
{{- if eq $role.kind (index $ 1) -}}
{{- $_ := set $role.metadata "name" (index $ 3) -}}
{{- $_ := set $role.metadata "labels" (include "operator.labels" $top | fromYaml) -}}
{{- if eq $role.kind "Role" -}}
{{- $_ := set $role.metadata "namespace" $top.Release.Namespace -}}
{{- /* The election lease has the name of the release. */ -}}
{{- range $role.rules -}}
{{- if .resourceNames -}}
{{- $_ := set . "resourceNames" (list (include "operator.fullname" $top)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ toYaml $role }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "operator.subjects" -}}
subjects:
- kind: ServiceAccount
  name: {{ include "operator.fullname" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
