package main

const (
	entries   = "./internal/provider/registry"
	gcpTests  = "./internal/provider/gcp"
	kvmTests  = "./internal/provider/kvm"
	kvmWire   = "./internal/provider/kvm/session"
	registryD = "internal/provider/registry/"
	kvmDir    = "internal/provider/kvm/"
)

// providerMutants are the rules about the file of entries, and those that a kind of provider keeps in a way of its own.
func providerMutants() []mutant {
	return []mutant{
		{rule: "R35", what: "a change disowns what is on record", file: registryD + "scope.go",
			from: "		if err := scope.InScope(id); err != nil {", to: "		if err := scope.InScope(id); err != nil && id == \"\" {", pkg: entries, test: "TestAChangeThatWouldDisownAnInstanceInUseIsRefused"},
		{rule: "R35", what: "what comes on record meanwhile is not seen", file: registryD + "reload.go",
			from: "	if refused == nil {\n		refused = r.disowns(ctx, old.raw, next, inUse)\n	}\n", to: "", pkg: entries, test: "TestAnIntentInBetweenIsSeen"},
		{rule: "R35", what: "not to know what is in use is nothing in use", file: registryD + "scope.go",
			from: "	case err != nil:\n", to: "	case err != nil && len(ids) > 0:\n", pkg: entries, test: "TestWithoutAnAnswerNothingIsExchanged"},
		{rule: "R35", what: "another place under the same ID", file: registryD + "scope.go",
			from: "elsewhere(was, is) {", to: "elsewhere(was, is) && ok == false {", pkg: entries, test: "TestAChangeThatWouldDisownAnInstanceInUseIsRefused"},
		{rule: "R35", what: "the old client is closed under a call", file: registryD + "reload.go",
			from: "	refused := r.drained(ctx, old.Name, held)\n", to: "	var refused *Refusal\n", pkg: entries, test: "TestACallInFlightEndsOnTheOldClient"},
		{rule: "R35", what: "an entry that comes back disowns", file: registryD + "reload.go",
			from: "	if refused := r.disowns(ctx, before.was, next, inUse); refused != nil {\n		return refused\n	}\n	return r.put(next)", to: "	return r.put(next)",
			pkg: entries, test: "TestARemovedEntryThatComesBackMustNotDisownEither"},
		{rule: "R23", what: "an open VM on Compute Engine", file: "internal/provider/gcp/plan.go",
			from: "	case req.Credentials == nil:\n", to: "	case req.Port == 0:\n", pkg: gcpTests, test: "TestOpenProxiesAreRefused"},
		{rule: "R23", what: "clients that are everybody in two halves", file: "internal/provider/clients.go",
			from: "	case network.Bits() < widest:", to: "	case network.Bits() < 1:", pkg: kvmTests, test: "TestConfigurationsThatAreRefused"},
		{rule: "R36", what: "a host believed about what it has", file: kvmDir + "session/frame.go",
			from: "		shape, read = reflect.TypeFor[refusal](), true", to: "		shape, read = reflect.TypeFor[refusal](), false", pkg: kvmWire, test: "TestClaims"},
		{rule: "R36", what: "a domain that is stuck is a host that is silent", file: kvmDir + "errors.go",
			from: "; ok && e.domain {\n		return \"\", provider.ErrTransient", to: "; ok && e.domain {\n		return provider.ReasonUnreachable, provider.ErrTransient",
			pkg: kvmTests, test: "TestADomainThatIsStuck"},
		{rule: "R37", what: "volumes are taken from under a domain", file: kvmDir + "delete.go",
			from: "	if strange == nil || !p.runsOn(f, ref) {", to: "	if strange == nil || f != nil {", pkg: kvmTests, test: "TestStrangeMetadata"},
		{rule: "R37", what: "a domain of another name of the host is one's own", file: kvmDir + "look.go",
			from: "	if f.record.Host != h.config.Name {", to: "	if f.record.Host == \"\" {", pkg: kvmTests, test: "TestAHostByAnotherName"},
		{rule: "R37", what: "sent late", file: kvmDir + "session/link.go",
			from: "		if over(ctx) {", to: "		if ctx.Err() != nil {", pkg: kvmWire, test: "TestNothingIsSentLate"},
	}
}
