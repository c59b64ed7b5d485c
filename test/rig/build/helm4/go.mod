module github.com/paceline/paceline/test/rig/build/helm4

go 1.26.0

tool helm.sh/helm/v4/cmd/helm

require helm.sh/helm/v4 v4.3.1
