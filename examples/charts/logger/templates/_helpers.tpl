{{- define "logger.name" -}}
{{- printf "%s-logger" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "logger.selector" -}}
app.kubernetes.io/name: logger
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
