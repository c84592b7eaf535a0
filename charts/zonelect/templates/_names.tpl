{{/* Names and labels. */}}

{{- define "zonelect.name" -}}
{{- .Values.nameOverride | default .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "zonelect.fullname" -}}
{{- .Values.fullnameOverride | default (include "zonelect.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of an object that belongs to no namespace, or to another than the release's. */}}
{{- define "zonelect.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "zonelect.fullname" .) }}
{{- end }}

{{- define "zonelect.selectorLabels" -}}
app.kubernetes.io/name: {{ include "zonelect.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "zonelect.labels" -}}
{{ include "zonelect.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "zonelect.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "zonelect.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* The image of a dict with repository, tag and digest. */}}
{{- define "zonelect.image" -}}
{{- $what := .what }}
{{- with .image }}
{{- $repository := required (printf "%s.repository is missing: name the image" $what) .repository }}
{{- if .digest }}
{{- $repository }}@{{ .digest }}
{{- else }}
{{- $repository }}:{{ required (printf "%s.tag is missing: give the image a tag or a digest" $what) .tag }}
{{- end }}
{{- end }}
{{- end }}
