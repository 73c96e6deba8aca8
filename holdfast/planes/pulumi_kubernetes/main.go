// The Pulumi Kubernetes provider as its own command serves it: its main package embeds files that the module's archive
// lacks in that form, so they are read from beside this program.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
)

// Set by the linker: the version of the SDK that asks for this provider.
var version string

func share(name string) []byte {
	program, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	program, err = filepath.EvalSymlinks(program)
	if err != nil {
		log.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(filepath.Dir(program), "..", "share", name))
	if err != nil {
		log.Fatal(err)
	}
	return content
}

func main() {
	provider.Serve("kubernetes", version, share("schema.json"), share("terraform-mapping.json"))
}
