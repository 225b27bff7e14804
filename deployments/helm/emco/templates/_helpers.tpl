{{- define "emco.name" -}}
{{- if contains "emco" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-emco" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "emco.selector" -}}
app.kubernetes.io/name: emco
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "emco.labels" -}}
{{ include "emco.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
