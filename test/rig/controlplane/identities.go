package controlplane

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Namespace is where Paceline itself is installed.
const Namespace = "paceline-system"

// ControllerUser is the account that the controller runs as: it has what the chart grants, no more.
const ControllerUser = "system:serviceaccount:" + Namespace + ":paceline"

// identity is a user with a static token and a kubeconfig file.
type identity struct {
	name   string // of the kubeconfig file
	user   string
	groups []string
}

const masters = "system:masters"

// identities are the people first (files in the rig's folder), then the components. The kubelets'
// user is a master too: kwok needs more than one cluster node's rights.
func identities() (people, components []identity) {
	people = []identity{
		{"admin", "admin", []string{masters}},
		{"viewer", "viewer", nil},
		{"controller", ControllerUser, []string{"system:serviceaccounts", "system:serviceaccounts:" + Namespace, "system:authenticated"}},
	}
	components = []identity{
		{"kube-controller-manager", "system:kube-controller-manager", nil},
		{"kube-scheduler", "system:kube-scheduler", nil},
		{"kwok", "rig:kubelets", []string{masters}},
	}
	return people, components
}

// writeIdentities writes the token file and one kubeconfig for each identity.
func writeIdentities(dir, server, caFile string) (tokenFile string, err error) {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return "", fmt.Errorf("reading the rig's CA: %w", err)
	}
	people, components := identities()
	var lines strings.Builder
	write := func(folder string, who identity) error {
		token := rand.Text()
		fmt.Fprintf(&lines, "%s,%s,%s,%q\n", token, who.user, who.user, strings.Join(who.groups, ","))
		return WriteKubeconfig(filepath.Join(folder, who.name+".kubeconfig"), server, ca, who.name, token)
	}
	for _, who := range people {
		if err := write(dir, who); err != nil {
			return "", err
		}
	}
	for _, who := range components {
		if err := write(filepath.Join(dir, "conf"), who); err != nil {
			return "", err
		}
	}
	tokenFile = filepath.Join(dir, "conf", "tokens.csv")
	if err := os.WriteFile(tokenFile, []byte(lines.String()), 0o600); err != nil {
		return "", fmt.Errorf("writing the token file: %w", err)
	}
	return tokenFile, nil
}

// WriteKubeconfig writes a kubeconfig file for one user of one server. An empty ca and token suit a server
// that has no TLS and asks for no credentials.
func WriteKubeconfig(path, server string, ca []byte, name, token string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["rig"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["rig"] = &clientcmdapi.Context{Cluster: "rig", AuthInfo: name}
	config.CurrentContext = "rig"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}
