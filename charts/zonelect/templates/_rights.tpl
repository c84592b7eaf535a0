{{/*
The rules are those of config/ in the repository, where the reasons are. A test compares them.
*/}}

{{/* A Role and its binding of a dict with root, name, namespace and rules. */}}
{{- define "zonelect.role" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels: {{- include "zonelect.labels" .root | nindent 4 }}
rules: {{- .rules | nindent 0 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels: {{- include "zonelect.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects: {{- include "zonelect.subjects" .root | nindent 0 }}
{{- end }}

{{- define "zonelect.subjects" -}}
- kind: ServiceAccount
  name: {{ include "zonelect.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* Limits a rule to an object's name, if that is known here and not to the program alone. */}}
{{- define "zonelect.only" }}
{{- with . }}
  resourceNames: [{{ . | quote }}]
{{- end }}
{{- end }}

{{- define "zonelect.rules.lease" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, create, update, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
- apiGroups: [""]
  resources: [configmaps]
  {{- include "zonelect.only" (include "zonelect.lockName" .) }}
  verbs: [get]
{{- end }}

{{- define "zonelect.rules.events" -}}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- define "zonelect.rules.proof" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, watch]
{{- end }}

{{- define "zonelect.rules.zone" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
{{- end }}

{{- define "zonelect.rules.leader-service" -}}
- apiGroups: [""]
  resources: [services]
  resourceNames: [{{ .Values.election.service }}]
  verbs: [get]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [create]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  resourceNames: [{{ .Values.election.service }}-zonelect]
  verbs: [get, update]
{{- end }}

{{- define "zonelect.rules.leader-for-life" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps]
  {{- include "zonelect.only" (include "zonelect.legacyName" .) }}
  verbs: [get, update, delete, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list]
- apiGroups: [apps]
  resources: [replicasets, deployments]
  verbs: [get]
{{- end }}

{{- define "zonelect.rules.dead-nodes" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list]
{{- end }}

{{- define "zonelect.rules.annotation" -}}
{{- $object := ternary "endpoints" "configmaps" (eq (include "zonelect.legacyKind" .) "endpoints") -}}
- apiGroups: [""]
  resources: [{{ $object }}]
  verbs: [create]
- apiGroups: [""]
  resources: [{{ $object }}]
  {{- include "zonelect.only" (include "zonelect.legacyName" .) }}
  verbs: [get, update, watch]
{{- end }}
