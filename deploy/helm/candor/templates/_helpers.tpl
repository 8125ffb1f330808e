{{- define "candor.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "candor.labels" -}}
{{ include "candor.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
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
