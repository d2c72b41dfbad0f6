package local

// OnStep lets a test act between two effects of a call. Set it before the provider is used.
func (p *Provider) OnStep(f func(step string)) { p.onStep = f }

// ClassOf is the table of classes.
var ClassOf = classOf
