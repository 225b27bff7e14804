{{- /* The template of a pod. Its argument is the chart's, and in mode services the target, which names what the pod runs. */}}
{{- define "emco.pod" -}}
metadata:
  labels:
    {{- include "emco.labels" . | nindent 4 }}
    {{- if eq .Values.mode "services" }}
    app.kubernetes.io/component: {{ .target }}
    {{- end }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ toYaml .Values.config | sha256sum }} # a changed configuration restarts the pod
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "emco.name" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: emco
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      env:
        - {name: EMCO_CONFIG, value: /etc/emco/emco.yaml}
        - {name: EMCO_DATA, value: /var/lib/emco}
        - {name: EMCO_HTTP_ADDRESS, value: "0.0.0.0:9015"}
        - {name: EMCO_GRPC_ADDRESS, value: "0.0.0.0:9016"}
        - {name: EMCO_OPS_ADDRESS, value: "0.0.0.0:9017"} # probes and metrics, plain and without identity
        {{- if include "emco.open" . }}
        - {name: EMCO_HTTP_INSECURE, value: "true"} # the cluster's network protects the addresses
        {{- else }}
        - {name: EMCO_HTTP_INSECURE, value: {{ dig "http" "insecure" false .Values.config | quote }}} # in the image it is true
        {{- end }}
        - {name: EMCO_HTTP_HOSTS, value: {{ include "emco.hosts" . | quote }}}
        {{- with .Values.sealingKey.secretName }}
        - name: EMCO_STORE_KEY
          valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $.Values.sealingKey.key }}}}
        {{- end }}
        {{- if .Values.tls.secretName }}
        - {name: EMCO_HTTP_CERT, value: /etc/emco-tls/tls.crt}
        - {name: EMCO_HTTP_CERT_KEY, value: /etc/emco-tls/tls.key}
        {{- end }}
        {{- if .Values.bootstrap.secretName }}
        - {name: EMCO_AUTH_BOOTSTRAP_FILE, value: {{ printf "/etc/emco-bootstrap/%s" .Values.bootstrap.key }}}
        {{- end }}
        {{- if eq .Values.mode "services" }}
        - {name: EMCO_TARGET, value: {{ .target }}}
        - {name: EMCO_HTTP_LINGER, value: 5s} # requests arrive until the Service knows that the pod ends
        - {name: EMCO_ETCD_ENDPOINTS, value: {{ join "," .Values.etcd.endpoints | quote }}}
        {{- with .Values.etcd.prefix }}
        - {name: EMCO_ETCD_PREFIX, value: {{ . | quote }}}
        {{- end }}
        {{- if .Values.etcd.secretName }}
        - {name: EMCO_ETCD_CA, value: /etc/emco-etcd/ca.crt}
        - {name: EMCO_ETCD_CERT, value: /etc/emco-etcd/tls.crt}
        - {name: EMCO_ETCD_CERT_KEY, value: /etc/emco-etcd/tls.key}
        {{- end }}
        {{- with .Values.mongo.secretName }}
        - {name: EMCO_STORE_DRIVER, value: mongo}
        - name: EMCO_STORE_MONGO_URI
          valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $.Values.mongo.key }}}}
        {{- end }}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: http, containerPort: 9015}
        - {name: grpc, containerPort: 9016}
        - {name: ops, containerPort: 9017}
      startupProbe: # the first start creates the stores; a later one replays their logs
        httpGet: {path: /healthz, port: ops}
        periodSeconds: 2
        failureThreshold: 150
      livenessProbe:
        httpGet: {path: /healthz, port: ops}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: ops}
        periodSeconds: 5
        timeoutSeconds: 5
      resources: {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: data, mountPath: /var/lib/emco}
        - {name: config, mountPath: /etc/emco, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if .Values.tls.secretName }}
        - {name: tls, mountPath: /etc/emco-tls, readOnly: true}
        {{- end }}
        {{- if .Values.bootstrap.secretName }}
        - {name: bootstrap, mountPath: /etc/emco-bootstrap, readOnly: true}
        {{- end }}
        {{- if and (eq .Values.mode "services") .Values.etcd.secretName }}
        - {name: etcd, mountPath: /etc/emco-etcd, readOnly: true}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "emco.name" . }}}
    - name: tmp
      emptyDir: {sizeLimit: {{ .Values.tmpSize }}}
    {{- if or (eq .Values.mode "services") (not .Values.persistence.enabled) }}
    - name: data
      emptyDir: {sizeLimit: {{ .Values.persistence.size }}}
    {{- end }}
    {{- with .Values.tls.secretName }}
    - name: tls
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- with .Values.bootstrap.secretName }}
    - name: bootstrap
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- if eq .Values.mode "services" }}
    {{- with .Values.etcd.secretName }}
    - name: etcd
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if eq .Values.mode "services" }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "emco.component" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
