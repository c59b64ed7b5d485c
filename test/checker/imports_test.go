package checker

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImportsNothingOfOurs(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	const self = "github.com/paceline/paceline/test/checker"
	for _, path := range strings.Fields(string(out)) {
		if strings.HasPrefix(path, "github.com/paceline/") {
			require.Equal(t, self, path)
		}
	}
	require.Contains(t, string(out), self)
}
