{{/* What the candidates are told about their election. */}}

{{/*
The flags of package operator without "leader-elect-", in its order. A value has the flag's name in
camel case. A test compares them with the package.
*/}}
{{- define "zonelect.flags" -}}
resource-name resource-namespace timing lease-duration renew-deadline retry-period attempt-timeout exclusive stop-timeout preferred-zones exit-on-overrun server service resource-lock mode legacy-kind legacy-name pod-selector legacy-grace
{{- end }}

{{/* The flags that are set, as the YAML of a list of {flag, value}. */}}
{{- define "zonelect.options" -}}
- {flag: leader-elect, value: {{ .Values.election.enabled | toString | quote }}}
{{- range splitList " " (include "zonelect.flags" .) }}
{{- $value := index $.Values.election (. | camelcase | untitle) }}
{{- if kindIs "slice" $value }}
{{- $value = join "," $value }}
{{- end }}
{{- if eq . "resource-name" }}
{{- $value = include "zonelect.lockName" $ }}
{{- end }}
{{- if and (not (kindIs "invalid" $value)) (ne (toString $value) "") }}
- {flag: leader-elect-{{ . }}, value: {{ toString $value | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{/* The flags that are set, as the YAML of a container's arguments. */}}
{{- define "zonelect.arguments" -}}
{{- range include "zonelect.options" . | fromYamlArray }}
- {{ printf "--%s=%s" .flag .value | quote }}
{{- end }}
{{- end }}

{{/*
The environment of a candidate, as the YAML of a container's env: what the downward API tells it, and
the options unless they are arguments.
*/}}
{{- define "zonelect.environment" -}}
- name: NODE_NAME # tokens name the node since Kubernetes 1.30
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: NODE_ZONE # empty before Kubernetes 1.35: then the node's label is read
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['topology.kubernetes.io/zone']"}}
{{- if .Values.election.service }}
- name: POD_IP # what the Service points to while this pod leads
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- end }}
{{- if eq .Values.election.passAs "environment" }}
{{- range include "zonelect.options" . | fromYamlArray }}
- name: {{ .flag | replace "-" "_" | upper }}
  value: {{ .value | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* poll, command, or empty for a program that elects by itself. */}}
{{- define "zonelect.form" -}}
{{- if .Values.sidecar.enabled }}{{ .Values.sidecar.form }}{{ end }}
{{- end }}

{{/* The name of the Lease, or empty if only the program knows it. */}}
{{- define "zonelect.lockName" -}}
{{- .Values.election.resourceName | default (ternary (include "zonelect.fullname" .) "" .Values.sidecar.enabled) }}
{{- end }}

{{/* The name of the legacy lock's object, or empty if only the program knows it. */}}
{{- define "zonelect.legacyName" -}}
{{- .Values.election.legacyName | default (include "zonelect.lockName" .) }}
{{- end }}

{{/* The namespace of the Lease. */}}
{{- define "zonelect.lockNamespace" -}}
{{- .Values.election.resourceNamespace | default .Release.Namespace }}
{{- end }}

{{/* The kind of the legacy lock, or empty if none is held. */}}
{{- define "zonelect.legacyKind" -}}
{{- with .Values.election }}
{{- $of := dict "configmapsleases" "configmap" "endpointsleases" "endpoints" }}
{{- if has .mode (list "auto" "dual") }}
{{- .legacyKind | default (index $of (.resourceLock | default "")) | default "ownerref" }}
{{- else }}
{{- index $of (.resourceLock | default "") | default "" }}
{{- end }}
{{- end }}
{{- end }}

{{/* The arguments of zonelect-sidecar itself. */}}
{{- define "zonelect.sidecarArguments" -}}
{{- if eq .Values.election.passAs "arguments" }}
{{- include "zonelect.arguments" . }}
{{- end }}
{{- with .Values.sidecar.stopGrace }}
- {{ printf "--stop-grace=%s" . | quote }}
{{- end }}
{{- with .Values.sidecar.address }}
- {{ printf "--address=%s" . | quote }}
{{- end }}
{{- with .Values.sidecar.metricsPort }}
- {{ printf "--metrics-bind-address=:%v" . | quote }}
{{- end }}
{{- end }}

{{- define "zonelect.sidecarPorts" -}}
{{- with .Values.sidecar.metricsPort }}
- {name: zonelect-metrics, containerPort: {{ . }}}
{{- end }}
{{- end }}

{{- define "zonelect.sidecarProbe" -}}
{{- with .Values.sidecar.metricsPort }}
httpGet: {path: /healthz, port: {{ . }}}
periodSeconds: 10
failureThreshold: 3
{{- end }}
{{- end }}

{{/* A duration in whole seconds, as Go reads it. Templates cannot parse one, but can add it to a day. */}}
{{- define "zonelect.seconds" -}}
{{- $day := toDate "2006-01-02" "2001-01-01" }}
{{- sub (mustDateModify (printf "+%s" .) $day | unixEpoch | int64) (unixEpoch $day | int64) }}
{{- end }}

{{/* How long a pod has to end. */}}
{{- define "zonelect.gracePeriod" -}}
{{- $stop := .Values.election.stopTimeout | toString | default "30s" }}
{{- $least := include "zonelect.seconds" $stop | int }}
{{- $grace := .Values.terminationGracePeriodSeconds }}
{{- if eq (toString $grace) "" }}
{{- add $least 10 }}
{{- else if le (int $grace) $least }}
{{- fail (printf "terminationGracePeriodSeconds is %v, and the work may take its StopTimeout of %s to stop: leave the leader more than that, or it is killed before it hands over" $grace $stop) }}
{{- else }}
{{- int $grace }}
{{- end }}
{{- end }}

{{/* One candidate of this version in each zone, and on each node. */}}
{{- define "zonelect.topologySpreadConstraints" -}}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- topologyKey: {{ . }}
  maxSkew: 1
  whenUnsatisfiable: {{ $.Values.topologySpread.whenUnsatisfiable }}
  labelSelector:
    matchLabels: {{- include "zonelect.selectorLabels" $ | nindent 6 }}
  {{- if semverCompare ">=1.27.0-0" $.Capabilities.KubeVersion.Version }}
  matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
{{- end }}
