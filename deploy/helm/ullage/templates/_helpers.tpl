{{/* Labels of an object: a dict with `component` and `root`. */}}
{{- define "ullage.labels" -}}
app.kubernetes.io/name: ullage
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion }}
{{- end }}

{{- define "ullage.selector" -}}
app.kubernetes.io/name: ullage
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "ullage.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Rules of one scope that the chosen features need: a dict with `rules` and `root`. */}}
{{- define "ullage.rules" -}}
{{- range .rules }}
{{- if or (not .feature) (index $.root.Values.features (.feature | default "kwok")) }}
- {{ toYaml .rule | nindent 2 | trim }}
{{- end }}
{{- end }}
{{- end }}

{{/* Volumes of a component with their mounts, as a list: a dict with `name`, `declared` and `root`. */}}
{{- define "ullage.volumes" -}}
{{- if eq .name "vm-agent" }}
- name: scheduler-ca
  configMap: {name: ullage-scheduler-ca}
- name: scheduler-token
  projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 3600}}]}
{{- end }}
{{- if eq .name "agent" }}
- name: pod-resources
  hostPath: {path: /var/lib/kubelet/pod-resources, type: DirectoryOrCreate}
- name: host-proc
  hostPath: {path: /proc, type: Directory}
{{- else if eq .name "dashboard" }}
- name: dashboard-token
  secret: {secretName: {{ .root.Values.dashboard.tokenSecret }}}
{{- with .root.Values.dashboard.historyClaim }}
- name: history
  persistentVolumeClaim: {claimName: {{ . }}}
{{- end }}
{{- end }}
{{- if and .declared.takesSettings .root.Values.settings }}
- name: settings
  configMap: {name: ullage-settings}
{{- end }}
{{- end }}

{{- define "ullage.mounts" -}}
{{- if eq .name "vm-agent" }}
- {name: scheduler-ca, mountPath: /etc/ullage/scheduler-ca, readOnly: true}
- {name: scheduler-token, mountPath: /var/run/secrets/ullage/scheduler, readOnly: true}
{{- end }}
{{- if eq .name "agent" }}
- {name: pod-resources, mountPath: /var/lib/kubelet/pod-resources, readOnly: true}
- {name: host-proc, mountPath: /host/proc, readOnly: true}
{{- else if eq .name "dashboard" }}
- {name: dashboard-token, mountPath: /etc/ullage/dashboard, readOnly: true}
{{- if .root.Values.dashboard.historyClaim }}
- {name: history, mountPath: /var/lib/ullage/history, readOnly: false}
{{- end }}
{{- end }}
{{- if and .declared.takesSettings .root.Values.settings }}
- {name: settings, mountPath: /etc/ullage/settings, readOnly: true}
{{- end }}
{{- end }}

{{/* Pod of a component: a dict with `name`, `declared`, `values` and `root`. */}}
{{- define "ullage.pod" -}}
metadata:
  labels:
    {{- include "ullage.labels" (dict "component" .name "root" .root) | nindent 4 }}
    {{- with .values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: ullage-{{ .name }}
  terminationGracePeriodSeconds: {{ .declared.graceSeconds }}
  {{- with .root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with (.values.priorityClassName | default .declared.priorityClass) }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- if .declared.perNode }}
  {{- with .values.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- end }}
  {{- if and .values.nodeSelector (not (and .declared.perNode .values.simulate)) }}
  nodeSelector:
    {{- toYaml .values.nodeSelector | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if and (not .declared.perNode) (gt (int (.values.replicas | default .declared.replicas)) 1) }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "ullage.selector" .name | nindent 10 }}
  {{- end }}
  {{- if and (eq .name "dashboard") .root.Values.dashboard.historyClaim }}
  securityContext: {fsGroup: 65532}
  {{- end }}
  {{- with include "ullage.volumes" . | trim }}
  volumes:
    {{- . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .name }}
      image: {{ include "ullage.image" .root }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args:
        {{- toYaml .declared.arguments | nindent 8 }}
        {{- if and .declared.takesSettings .root.Values.settings }}
        - --settings
        - /etc/ullage/settings/settings.yaml
        {{- end }}
        {{- if and (eq .name "scheduler") .root.Values.vmAgent.enabled }}
        - --vm-agent-account
        - $(NAMESPACE)/ullage-vm-agent
        {{- end }}
        {{- if and (eq .name "dashboard") .root.Values.dashboard.historyClaim }}
        - --history-file
        - /var/lib/ullage/history/history.jsonl
        {{- end }}
        {{- if and .declared.perNode .values.simulate }}
        - --simulate
        - {{ .values.simulate | quote }}
        {{- end }}
        {{- with .values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      env:
        - name: NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        {{- if .declared.perNode }}
        - name: NODE_NAME
          valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
        {{- end }}
        {{- if eq .name "agent" }}
        - {name: NVIDIA_VISIBLE_DEVICES, value: all}
        - {name: NVIDIA_DRIVER_CAPABILITIES, value: utility}
        {{- end }}
      ports:
        {{- range .declared.ports }}
        - {name: {{ .name }}, containerPort: {{ .number }}}
        {{- end }}
      readinessProbe:
        httpGet: {path: {{ .declared.readyPath }}, port: {{ .declared.probePort }}}
        periodSeconds: 2
      livenessProbe:
        httpGet: {path: /healthz, port: {{ .declared.probePort }}}
        initialDelaySeconds: 10
        failureThreshold: 6
      resources:
        {{- toYaml (.values.resources | default .declared.resources) | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        capabilities: {drop: [ALL]}
        readOnlyRootFilesystem: true
        {{- if .declared.unrestricted }}
        # {{ .declared.unrestricted }}
        runAsNonRoot: false
        runAsUser: 0
        {{- else }}
        runAsNonRoot: true
        runAsUser: 65532
        {{- end }}
        seccompProfile: {type: RuntimeDefault}
      {{- with include "ullage.mounts" . | trim }}
      volumeMounts:
        {{- . | nindent 8 }}
      {{- end }}
{{- end }}
