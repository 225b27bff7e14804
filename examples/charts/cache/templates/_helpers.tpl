{{- define "cache.name" -}}
{{- printf "%s-cache" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "cache.selector" -}}
app.kubernetes.io/name: cache
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
