package isolation

import (
	"encoding/json"
	"fmt"
	"os"
)

// A program that makes namespaces starts itself twice; these stages tell it which of its lives it is in.
const (
	StageInit   = "init"   // the first process of the namespaces
	StageInside = "inside" // the one that does the work in there
)

// The environment tells a stage which it is, and what to do there.
const (
	envStage = "EPX_STAGE"
	envPlan  = "EPX_PLAN"
)

// Inherited returns what the stage before has left in the environment, and takes it out of there. Stage is "" in the
// program's first life.
func Inherited[P any]() (stage string, plan P, err error) {
	stage = os.Getenv(envStage)
	if stage == "" {
		return "", plan, nil
	}
	if err := json.Unmarshal([]byte(os.Getenv(envPlan)), &plan); err != nil {
		return "", plan, fmt.Errorf("reading %s: %w", envPlan, err)
	}
	_ = os.Unsetenv(envStage)
	_ = os.Unsetenv(envPlan)
	return stage, plan, nil
}

// Environment is that of the next stage.
func Environment(stage string, plan any) ([]string, error) {
	data, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), envStage+"="+stage, envPlan+"="+string(data)), nil
}
