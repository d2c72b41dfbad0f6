package main

const (
	gateDir  = "internal/provider/instrument/"
	proxyDir = "internal/controller/proxy/"
)

// gateMutants are the rules about targets that are denied or unreachable, about the release of those that wait, and about
// entries that are replaced.
func gateMutants() []mutant {
	return []mutant{
		{rule: "R32", what: "a target that is denied is asked all the same", file: gateDir + "through.go",
			from: "		how, cause = shutDenied, provider.Cause(err)", to: "		_, cause = shutDenied, provider.Cause(err)", pkg: guard, test: "TestADeniedTargetIsLeftAlone"},
		{rule: "R32", what: "any number of canaries", file: gateDir + "gate.go",
			from: "	if tried {", to: "	if tried && now.IsZero() {", pkg: guard, test: "TestADeniedTargetIsLeftAlone"},
		{rule: "R32", what: "an answer from before opens the gate", file: gateDir + "target.go",
			from: "	if t.gate.shut != shutNot && began < t.gate.shutAt {\n		return false", to: "	if began == 0 {\n		return false", pkg: guard, test: "TestAnAnswerFromBeforeDoesNotOpenAGate"},
		{rule: "R32", what: "a refusal from before shuts the gate", file: gateDir + "target.go",
			from: "	if began < t.gate.openedAt {", to: "	if began == 0 {", pkg: guard, test: "TestARefusalFromBeforeDoesNotShutAGate"},
		{rule: "R32", what: "a check from before opens the gate", file: gateDir + "report.go",
			from: " && began > t.gate.shutAt && ", to: " && ", pkg: guard, test: "TestAnOldCheckDoesNotCount"},
		{rule: "R32", what: "a check shuts nothing", file: gateDir + "report.go",
			from: "		t.gate.close(", to: "		(func(...any) {})(", pkg: guard, test: "TestWhichChecksShutAGate"},
		{rule: "R32", what: "a denied list shuts nothing else", file: gateDir + "through.go",
			from: "	if name == listTarget || lists.shut != shutDenied {", to: "	if name != \"?\" {", pkg: guard, test: "TestADeniedListShutsTheWholeProvider"},
		{rule: "R32", what: "one Proxy's secrets in what all others say", file: gateDir + "through.go",
			from: "secrets.Hide(cause))", to: "cause+secrets.Hide(\"\"))", pkg: guard, test: "TestTheGateShowsNoSecrets"},
		{rule: "R32", what: "the gate is not told what is secret", file: proxyDir + "discreet.go",
			from: "	ctx = instrument.WithSecrets(ctx, ps.secrets)", to: "	ctx = instrument.WithSecrets(ctx, nil)", pkg: reconciler, test: "TestOthersWaitWithoutSeeingSecrets"},
		{rule: "R32", what: "each try of a plan is a failure on record", file: proxyDir + "create.go",
			from: "	if instrument.IsShut(err) {", to: "	if instrument.IsShut(nil) {", pkg: reconciler, test: "TestAPlanThatIsDeniedLatchesNothing"},
		{rule: "R33", what: "nobody learns that a gate has opened", file: gateDir + "through.go",
			from: "	if opened {\n		g.tell(name)", to: "	if opened && err != nil {\n		g.tell(name)", pkg: guard, test: "TestADeniedTargetIsLeftAlone"},
		{rule: "R33", what: "a latch outlives the gate", file: proxyDir + "failure.go",
			from: "	if ps.moved() || ps.gateHolds(l) {", to: "	if ps.moved() {", pkg: reconciler, test: "TestALatchDoesNotOutliveTheGate"},
		{rule: "R33", what: "a wait for the gate outlives it", file: proxyDir + "failure.go",
			from: "		f.asked = !f.shut", to: "		f.asked, f.shut = true, false", pkg: reconciler, test: "TestProxiesWaitAtAShutGate"},
		{rule: "R33", what: "a late denial is repeated at once", file: proxyDir + "failure.go",
			from: "yes = !e.failedLate", to: "yes = true", pkg: reconciler, test: "TestALateDenialHoldsByItself"},
		{rule: "R33", what: "a removal waits although the gate is open", file: proxyDir + "removal.go",
			from: "		if f.shut && n == 0 {", to: "		if false {", pkg: reconciler, test: "TestARemovalGoesOnOnceTheGateHasOpened"},
		{rule: "R33", what: "one removal shuts the gate again and again", file: proxyDir + "removal.go",
			from: "		if f.shut && n == 0 {", to: "		if f.shut {", pkg: reconciler, test: "TestARemovalThatIsDeniedAgainWaitsByItself"},
		{rule: "R33", what: "everybody is released at once", file: proxyDir + "release.go",
			from: "	gap := max(", to: "	gap := 0 * max(", pkg: reconciler, test: "TestAReleaseIsSpread"},
		{rule: "R33", what: "a second release is lost", file: proxyDir + "release.go",
			from: "			for _, name := range r.take() {", to: "			for _, name := range r.take() {\n				if len(turns) > 0 {\n					break\n				}", pkg: reconciler, test: "TestASecondReleaseLosesNobody"},
		{rule: "R33", what: "any number of wakes in a second", file: proxyDir + "release.go",
			from: "due[:min(len(due), most)]", to: "due[:min(len(due), 100*most)]", pkg: reconciler, test: "TestASecondReleaseLosesNobody"},
		{rule: "R34", what: "a retired provider takes calls", file: gateDir + "retire.go",
			from: "	if len(g.retired) == 0 || ps != nil", to: "	if len(g.retired) >= 0 || ps != nil", pkg: guard, test: "TestARetiredProviderLetsNoNewCallThrough"},
		{rule: "R34", what: "any pass goes on at a retired provider", file: gateDir + "retire.go",
			from: "ps != nil && ps.holdsAny(g) {", to: "ps != nil {", pkg: guard, test: "TestARetiredProviderLetsNoNewCallThrough"},
		{rule: "R34", what: "drained while somebody holds a place", file: gateDir + "retire.go",
			from: "	if r.guard.inUse == 0 {", to: "	if r.guard.inUse >= 0 {", pkg: guard, test: "TestNoIntentAppearsAfterTheDrain"},
		{rule: "R34", what: "drained while a plan is made", file: gateDir + "through.go",
			from: "	g.use(1)\n	g.mu.Unlock()\n	id, err", to: "	g.use(1)\n	g.use(-1)\n	g.mu.Unlock()\n	id, err", pkg: guard, test: "TestARetirementWaitsForCallsInFlight"},
	}
}
