package isolation

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestAStageInheritsThePlanAndLeavesNoTrace(t *testing.T) {
	type some struct {
		Dir     string
		Command []string
	}
	plan := some{Dir: "/d", Command: []string{"sh", "-c", "echo \"$X\"\n"}}
	env, err := Environment(StageInside, plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range env[len(env)-2:] {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	stage, got, err := Inherited[some]()
	if err != nil {
		t.Fatal(err)
	}
	if stage != StageInside || !reflect.DeepEqual(got, plan) {
		t.Errorf("got %s, %+v, want %s, %+v", stage, got, StageInside, plan)
	}
	for _, name := range []string{envStage, envPlan} {
		if value, there := os.LookupEnv(name); there {
			t.Errorf("%s=%s would reach the command", name, value)
		}
	}
	if stage, _, err := Inherited[some](); stage != "" || err != nil {
		t.Errorf("without any: got %q, %v", stage, err)
	}
}
