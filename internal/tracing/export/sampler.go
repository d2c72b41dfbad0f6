package export

import (
	"math"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Sampler decides which traces are recorded.
type Sampler struct {
	// Name is one of OTEL_TRACES_SAMPLER's.
	Name string
	// Ratio is that of the samplers by ratio, 0 to 1.
	Ratio float64
}

const (
	alwaysOn      = "always_on"
	alwaysOff     = "always_off"
	ratio         = "traceidratio"
	parentOn      = "parentbased_always_on"
	parentOff     = "parentbased_always_off"
	parentRatio   = "parentbased_traceidratio"
	samplersKnown = alwaysOn + ", " + alwaysOff + ", " + ratio + ", " + parentOn + ", " + parentOff + " or " + parentRatio
)

func (r *reader) sampler() Sampler {
	v := r.get(varSampler)
	switch name := strings.ToLower(v); name {
	case alwaysOn, alwaysOff, parentOn, parentOff:
		return Sampler{Name: name}
	case ratio, parentRatio:
		return Sampler{Name: name, Ratio: r.ratio()}
	case "":
	default:
		r.warn(varSampler, "%q is not known: want %s; %s is used", v, samplersKnown, parentOn)
	}
	return Sampler{Name: parentOn}
}

func (r *reader) ratio() float64 {
	v := r.get(varArgument)
	if v == "" {
		return 1
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > 1 {
		r.warn(varArgument, "%q is not a number from 0 to 1; every trace is sampled", v)
		return 1
	}
	return f
}

func (s Sampler) build() sdktrace.Sampler {
	switch s.Name {
	case alwaysOn:
		return sdktrace.AlwaysSample()
	case alwaysOff:
		return sdktrace.NeverSample()
	case ratio:
		return sdktrace.TraceIDRatioBased(s.Ratio)
	case parentOff:
		return sdktrace.ParentBased(sdktrace.NeverSample())
	case parentRatio:
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(s.Ratio))
	default:
		return sdktrace.ParentBased(sdktrace.AlwaysSample())
	}
}
