{{- define "telemetry.name" -}}
{{- printf "%s-telemetry" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "telemetry.selector" -}}
app.kubernetes.io/name: telemetry
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
