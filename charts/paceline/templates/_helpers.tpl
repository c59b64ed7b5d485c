{{- define "paceline.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains (default .Chart.Name .Values.nameOverride) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (default .Chart.Name .Values.nameOverride) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "paceline.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "paceline.labels" -}}
{{ include "paceline.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "paceline.serviceAccountName" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "paceline.fullname" . -}}
{{- else -}}
{{- fail "serviceAccount.create is false: want serviceAccount.name" -}}
{{- end -}}
{{- end }}

{{- /* The user name of Paceline's account, as the API server writes it in a request. */ -}}
{{- define "paceline.account" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "paceline.serviceAccountName" . }}
{{- end }}

{{- define "paceline.secretName" -}}
{{- default (printf "%s-certs" (include "paceline.fullname" .)) .Values.config.certs.secretName -}}
{{- end }}

{{- define "paceline.webhookConfigurationName" -}}
zz-paceline
{{- end }}

{{- /* The configuration file: what values say, and what the chart knows better. */ -}}
{{- define "paceline.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config.webhook "url" .Values.webhook.url -}}
{{- $_ := set $config.webhook "serviceName" (include "paceline.fullname" .) -}}
{{- $_ := set $config.leaderElection "namespace" .Release.Namespace -}}
{{- $_ := set $config.certs "secretName" (include "paceline.secretName" .) -}}
{{- $_ := set $config "apiVersion" "paceline.io/v1alpha1" -}}
{{- $_ := set $config "kind" "Configuration" -}}
{{- toYaml $config -}}
{{- end }}

{{- /* The number after the last colon of an address. */ -}}
{{- define "paceline.port" -}}
{{- regexFind "[0-9]+$" . -}}
{{- end }}

{{/* Validations of annotations: a list of key, pattern, and want for the message. What stands there already blocks no other edit. */}}
{{- define "paceline.annotationValues" -}}
{{- range . }}
- expression: >-
    !({{ .key | squote }} in object.metadata.annotations)
    || object.metadata.annotations[{{ .key | squote }}].matches({{ .pattern | squote }})
    || (request.operation == 'UPDATE'
        && oldObject.metadata.?annotations[?{{ .key | squote }}] == object.metadata.?annotations[?{{ .key | squote }}])
  messageExpression: >-
    '{{ .key }}: "' + object.metadata.annotations[{{ .key | squote }}] + '": want {{ .want }}'
  reason: Invalid
{{- end }}
{{- end -}}

{{/* A CEL expression: the new annotations of paceline.io that are none of the names given. */}}
{{- define "paceline.unknownAnnotations" -}}
object.metadata.?annotations.orValue({}).filter(key, key.startsWith('paceline.io/')
  && !(request.operation == 'UPDATE' && oldObject.metadata.?annotations[?key].hasValue())
  && !(key in [{{ range $i, $name := . }}{{ if $i }}, {{ end }}'paceline.io/{{ $name }}'{{ end }}]))
{{- end -}}
