package node

import (
	"encoding/pem"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// writeKubeconfig writes the file with which user talks to the API server; nothing in it refers to other files.
func (a *authority) writeKubeconfig(file, user string, groups ...string) error {
	certPEM, keyPEM, err := a.client(user, groups...)
	if err != nil {
		return err
	}
	c := api.NewConfig()
	c.Clusters["test"] = &api.Cluster{Server: server, CertificateAuthorityData: a.pem()}
	c.AuthInfos[user] = &api.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}
	c.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: user}
	c.CurrentContext = "test"
	return clientcmd.WriteToFile(*c, file)
}

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}
