{{- define "candor.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "candor.origin" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "candor.labels" -}}
{{ include "candor.selector" . }}
{{ include "candor.origin" . }}
{{- end }}
{{- /* A separate name, so that selectors of the agents do not match the scheduler. */ -}}
{{- define "candor.schedulerSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-scheduler
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "candor.schedulerLabels" -}}
{{ include "candor.schedulerSelector" . }}
{{ include "candor.origin" . }}
{{- end }}
{{- define "candor.webSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-web
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "candor.webLabels" -}}
{{ include "candor.webSelector" . }}
{{ include "candor.origin" . }}
{{- end }}
{{- define "candor.ledgerSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-ledger
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "candor.ledgerLabels" -}}
{{ include "candor.ledgerSelector" . }}
{{ include "candor.origin" . }}
{{- end }}
{{- /* The preview has a separate state directory: its plans are not allocations. */ -}}
{{- define "candor.stateDir" -}}
{{- if .Values.observe }}/run/candor-observe{{ else }}{{ .Values.stateDir }}{{ end }}
{{- end }}
{{- /* The users of the schedulers, as a CEL list. */ -}}
{{- define "candor.schedulers" -}}
['system:serviceaccount:{{ .Release.Namespace }}:{{ .Release.Name }}-scheduler'{{ range .Values.schedulers }}, '{{ . }}'{{ end }}]
{{- end }}
{{- /* The part of a policy binding that excludes the namespaces in which a setting is permitted. */ -}}
{{- define "candor.elsewhere" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{- toYaml . | nindent 8 }}
{{- end }}
{{- /* A setting reaches pods through annotations (of a pod or a binding), CPUProfiles and labels of namespaces. Each path has a policy.
A policy refuses only values that a change adds. Objects from before the restriction can still be deleted, and changed in other fields. */ -}}
{{- define "candor.restriction" -}}
---
# {{ .why }}
{{ include "candor.restrictionPolicy" (dict "root" .root "name" .name "message" .message "namespaces" .namespaces "group" "\"\"" "versions" "v1"
  "resources" "pods, pods/status, pods/binding, bindings" "scheduler" true
  "expression" (include "candor.annotationRule" .)) }}
{{- if .profiles }}
---
{{ include "candor.restrictionPolicy" (dict "root" .root "name" (printf "%s-profiles" .name) "message" .message "namespaces" .namespaces "group" "candor.dev" "versions" "\"*\""
  "resources" "cpuprofiles" "scheduler" false
  "expression" (include "candor.profileRule" .)) }}
{{- end }}
---
{{ include "candor.restrictionPolicy" (dict "root" .root "name" (printf "%s-namespaces" .name) "message" .message "namespaces" .namespaces "group" "\"\"" "versions" "v1"
  "resources" "namespaces, namespaces/status, namespaces/finalize" "scheduler" false
  "expression" (include "candor.labelRule" .)) }}
{{- end }}
{{- define "candor.annotationRule" -}}
variables.annotations.size() > 1000 || !variables.annotations.exists(key, (key == 'candor.dev/{{ .setting }}' || key.startsWith('{{ .setting }}.candor.dev/'))
  && !(variables.annotations[key] in [{{ .harmless }}])
  && !(oldObject != null && oldObject.?metadata.annotations[?key] == optional.of(variables.annotations[key])))
{{- end }}
{{- define "candor.profileRule" -}}
object.?spec.{{ .setting }}.orValue('') in ['', {{ .harmless }}] || (oldObject != null && object.spec == oldObject.spec)
{{- end }}
{{- define "candor.labelRule" -}}
object.?metadata.labels[?'candor.dev/{{ .setting }}'].orValue('') in ['', {{ .harmless }}]
|| (oldObject != null && object.?metadata.labels[?'candor.dev/{{ .setting }}'] == oldObject.?metadata.labels[?'candor.dev/{{ .setting }}'])
{{- end }}
{{- define "candor.restrictionPolicy" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  labels: {{- include "candor.labels" .root | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [{{ .group }}]
        apiVersions: [{{ .versions }}]
        operations: [CREATE, UPDATE]
        resources: [{{ .resources }}]
  {{- if .scheduler }}
  matchConditions:
    # Schedulers write the settings of profiles and the administrator's defaults.
    - name: not-by-a-scheduler
      expression: >-
        !(request.userInfo.username in {{ include "candor.schedulers" .root }})
  variables:
    - name: annotations
      expression: object.?metadata.annotations.orValue({})
  {{- end }}
  validations:
    {{- if .scheduler }}
    # The API server's time for the rule below grows with the square of the number of annotations: 5,000 take 0.2 s, 40,000 over 10 s.
    - expression: >-
        variables.annotations.size() <= 1000 || (oldObject != null && object.?metadata.annotations == oldObject.?metadata.annotations)
      reason: Forbidden
      message: pods of this namespace may not have more than 1,000 annotations
    {{- end }}
    - expression: >-
        {{- .expression | nindent 8 }}
      reason: Forbidden
      message: '{{ .message }}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  labels: {{- include "candor.labels" .root | nindent 4 }}
spec:
  policyName: {{ .root.Release.Name }}-{{ .name }}
  validationActions: [Deny]
  matchResources: {{- include "candor.elsewhere" .namespaces | nindent 4 }}
{{- end }}
{{- define "candor.schedulerAccount" -}}
- kind: ServiceAccount
  name: {{ .Release.Name }}-scheduler
  namespace: {{ .Release.Namespace }}
{{- end }}
{{- define "candor.schedulerConfig" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceName: {{ .Release.Name }}-scheduler
  resourceNamespace: {{ .Release.Namespace }}
profiles:
  - schedulerName: {{ .Values.scheduler.name }}
    plugins:
      multiPoint: {enabled: [{name: Candor}]}
      # Before preemption: if other plugins refuse a pod on the best nodes, try all nodes first.
      postFilter: {enabled: [{name: Candor}]}
      # Before the default binder: the binding writes the planned settings into the pod.
      bind: {enabled: [{name: Candor}]}
    pluginConfig:
      - name: Candor
        args: {{- toYaml .Values.scheduler.args | nindent 10 }}
{{- end }}
{{- /* Empty without webConfig. The values of an older release can lack webConfig. */ -}}
{{- define "candor.metricsScheme" -}}
{{- with .Values.metrics.webConfig }}{{ if and .secret .scheme }}, scheme: {{ .scheme }}{{ end }}{{ end }}
{{- end }}
{{- /*
The image of candor, candor-scheduler or candor-web. A released chart names the image by the digest of the image. The digest is in an annotation
of Chart.yaml, because --reuse-values retains the values of the earlier chart, but not its annotations.
*/ -}}
{{- define "candor.image" -}}
{{- $image := .image -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}
{{- else if $image.tag }}{{ $image.repository }}:{{ $image.tag }}
{{- else }}{{ with index .chart.Annotations (printf "candor.dev/%s-digest" .name) }}{{ $image.repository }}@{{ . }}{{ else }}{{ $image.repository }}:{{ .chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}
