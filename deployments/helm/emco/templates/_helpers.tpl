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

{{- /* The names of the service, and those of the settings, such as the public name of a gateway. */}}
{{- define "emco.hosts" -}}
{{- $name := include "emco.name" . }}
{{- $own := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) }}
{{- join "," (concat $own (default list (default dict .Values.config.http).hosts)) }}
{{- end }}
