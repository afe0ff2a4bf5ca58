{{- define "sluicegate.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "sluicegate.selector" -}}
app.kubernetes.io/name: sluicegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluicegate.labels" -}}
{{ include "sluicegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "sluicegate.file" -}}
{{ if .Values.files }}/etc/sluicegate/{{ end }}{{ .Values.file }}
{{- end }}

{{- define "sluicegate.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* What the pods of the workers and of the preparation have in common. `configMap` is the one to mount. */}}
{{- define "sluicegate.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
volumes:
  - name: tmp
    emptyDir: {}
  {{- if .Values.files }}
  - name: files
    configMap: {name: {{ .configMap }}}
  {{- end }}
  {{- with .Values.secret }}
  - name: secrets
    secret: {secretName: {{ . }}, defaultMode: 0440}
  {{- end }}
{{- end }}

{{- define "sluicegate.container" -}}
image: {{ include "sluicegate.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  {{- if .Values.files }}
  - {name: files, mountPath: /etc/sluicegate, readOnly: true}
  {{- end }}
  {{- if .Values.secret }}
  - {name: secrets, mountPath: /run/secrets/sluicegate, readOnly: true}
  {{- end }}
{{- end }}
