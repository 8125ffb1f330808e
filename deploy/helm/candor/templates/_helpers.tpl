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
{{- /* Of another name, so that nothing that selects the agents finds the scheduler. */ -}}
{{- define "candor.schedulerSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-scheduler
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "candor.schedulerLabels" -}}
{{ include "candor.schedulerSelector" . }}
{{ include "candor.origin" . }}
{{- end }}
{{- /* What would be has a state of its own, which nobody takes for what is. */ -}}
{{- define "candor.stateDir" -}}
{{- if .Values.observe }}/run/candor-observe{{ else }}{{ .Values.stateDir }}{{ end }}
{{- end }}
{{- /* The users who are schedulers, as a list in CEL. */ -}}
{{- define "candor.schedulers" -}}
['system:serviceaccount:{{ .Release.Namespace }}:{{ .Release.Name }}-scheduler'{{ range .Values.schedulers }}, '{{ . }}'{{ end }}]
{{- end }}
{{- /* Where sensitive pods are refused, for the bindings of policies. */ -}}
{{- define "candor.notHere" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{- toYaml .Values.sensitiveOnlyIn | nindent 8 }}
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
      # Before preemption: where others refuse a pod on the best nodes it is tried on all first.
      postFilter: {enabled: [{name: Candor}]}
      # Before the default binder: with its node a pod gets what it is planned as.
      bind: {enabled: [{name: Candor}]}
    pluginConfig:
      - name: Candor
        args: {{- toYaml .Values.scheduler.args | nindent 10 }}
{{- end }}
{{- /* Nothing without webConfig, also with the values of an older release. */ -}}
{{- define "candor.metricsScheme" -}}
{{- with .Values.metrics.webConfig }}{{ if and .secret .scheme }}, scheme: {{ .scheme }}{{ end }}{{ end }}
{{- end }}
