package layer

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Index puts images of one program for several architectures behind one name, with the annotations.
func Index(annotations map[string]string, images ...v1.Image) (v1.ImageIndex, error) {
	out := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, img := range images {
		c, err := img.ConfigFile()
		if err != nil {
			return nil, err
		}
		out = mutate.AppendManifests(out, mutate.IndexAddendum{
			Add: toRun{img}, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: c.OS, Architecture: c.Architecture}},
		})
	}
	annotated, ok := mutate.Annotations(out, annotations).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("an index with annotations is no index")
	}
	return annotated, nil
}

// toRun keeps the library from naming the type of an artifact beside the image: what has one is nothing to run.
type toRun struct{ v1.Image }

// ArtifactType is what the library asks for.
func (toRun) ArtifactType() (string, error) { return "", nil }

// SaveIndex writes the index to file as an archive of an OCI image layout, which skopeo, podman, containerd and new versions
// of docker read. As Save it leaves no half file behind.
func SaveIndex(file, tag string, index v1.ImageIndex) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "layout-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// The first is the specification's, the second containerd's, which takes in nothing that has no full name, and has its own
	// for the registry of names without one.
	full := strings.Replace(ref.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
	err = at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": ref.TagStr(), "io.containerd.image.name": full,
	}))
	if err != nil {
		return err
	}
	entries, err := below(dir)
	if err != nil {
		return err
	}
	return replace(file, func(w io.Writer) error { return archive(w, entries) })
}

// below returns the files below dir, each with its path from there.
func below(dir string) (out []Entry, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		out = append(out, Copy("/"+filepath.ToSlash(rel), 0o644, p))
		return err
	})
	return out, err
}
