package checkpoint

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryDifferenceOfTwoCheckpointBlocksIsNamed sets one field at a time, so that a new one cannot be forgotten.
func TestEveryDifferenceOfTwoCheckpointBlocksIsNamed(t *testing.T) {
	for i := range reflect.TypeFor[Config]().NumField() {
		var a, b Config
		switch field := reflect.ValueOf(&b).Elem().Field(i); field.Kind() {
		case reflect.Bool:
			field.SetBool(true)
		default:
			field.SetInt(1)
		}
		require.Len(t, differences(&a, &b), 1, reflect.TypeFor[Config]().Field(i).Name)
	}
}
