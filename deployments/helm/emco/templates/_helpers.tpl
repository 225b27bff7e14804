{{- define "emco.name" -}}
{{- if contains "emco" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-emco" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "emco.selector" -}}
app.kubernetes.io/name: emco
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The labels of the pods with a target, in mode services. */}}
{{- define "emco.component" -}}
{{ include "emco.selector" . }}
app.kubernetes.io/component: {{ .target }}
{{- end }}

{{- define "emco.component.name" -}}
{{ include "emco.name" . }}{{ if ne .target "all" }}-{{ .target }}{{ end }}
{{- end }}

{{- /* The labels of the pods that answer every request. */}}
{{- define "emco.api" -}}
{{- if eq .Values.mode "services" }}{{ include "emco.component" (merge (dict "target" "all") .) }}{{ else }}{{ include "emco.selector" . }}{{ end }}
{{- end }}

{{- define "emco.labels" -}}
{{ include "emco.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* The names of the service, that of the ingress, and those of the settings, such as the public name of a gateway. */}}
{{- define "emco.hosts" -}}
{{- $name := include "emco.name" . }}
{{- $own := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) }}
{{- if .Values.ingress.enabled }}{{ $own = append $own .Values.ingress.host }}{{ end }}
{{- join "," (concat $own (default list (default dict .Values.config.http).hosts)) }}
{{- end }}

{{- /* "true" if everyone who reaches the API may do everything: auth.mode decides, and without it auth.issuers turn authentication on, as in emco. */}}
{{- define "emco.open" -}}
{{- $mode := dig "auth" "mode" "" .Values.config }}
{{- range .Values.extraEnv }}{{ if eq .name "EMCO_AUTH_MODE" }}{{ $mode = default "on" .value }}{{ end }}{{ end }}
{{- if or (eq $mode "off") (and (eq $mode "") (not (dig "auth" "issuers" "" .Values.config))) }}true{{ end }}
{{- end }}

{{- /* "true" if the API has TLS, here or at what ends it before, or may do without: authentication needs that. */}}
{{- define "emco.hasTLS" -}}
{{- $has := or .Values.tls.secretName (eq (dig "http" "tls" "" .Values.config) "terminated") (dig "http" "cert" "" .Values.config) (dig "http" "insecure" false .Values.config) }}
{{- range .Values.extraEnv }}{{ if has .name (list "EMCO_HTTP_TLS" "EMCO_HTTP_CERT" "EMCO_HTTP_INSECURE") }}{{ $has = true }}{{ end }}{{ end }}
{{- if $has }}true{{ end }}
{{- end }}
