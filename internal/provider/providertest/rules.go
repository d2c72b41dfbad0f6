package providertest

import "slices"

// Rules returns every rule in the order in which Run checks them. Their names are stable.
func Rules() []Rule {
	return slices.Concat(planRules(), createRules(), windowRules(), getRules(), failureRules(), deleteRules(), listRules(),
		errorRules(), lifeRules(), credentialRules(), watchRules())
}
