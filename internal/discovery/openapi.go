package discovery

import (
	_ "embed"
	"net/http"
)

const openapiPath = "/openapi.json"

// contract is the API in the words of OpenAPI 3.1. It is written first and by hand; the tests hold every answer against it.
//
//go:embed openapi.json
var contract []byte

func (s *Server) getContract(x *exchange, _ *http.Request) {
	x.encoded(http.StatusOK, contract)
}
