package layer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Spec is what an image says about itself.
type Spec struct {
	// Arch is a GOARCH; the system is always Linux.
	Arch string
	// User is "<uid>:<gid>": names would have to be looked up before a kubelet can tell that they are not root.
	User       string
	Entrypoint []string
	Env        []string
	Labels     map[string]string
	// Annotations are of the manifest, where registries look: labels are in the configuration.
	Annotations map[string]string
	// Created is the beginning of Unix's time when zero.
	Created time.Time
}

// Image puts layers on top of each other, the first lowest. The same Spec and layers give the same digest.
func Image(s Spec, layers ...v1.Layer) (v1.Image, error) {
	created := s.Created.UTC()
	if s.Created.IsZero() {
		created = time.Unix(0, 0).UTC()
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: "linux", Architecture: s.Arch, Created: v1.Time{Time: created}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: s.User, Entrypoint: s.Entrypoint, Env: s.Env, Labels: s.Labels, WorkingDir: "/"},
	})
	if err != nil {
		return nil, err
	}
	if img, err = mutate.AppendLayers(img, layers...); err != nil || len(s.Annotations) == 0 {
		return img, err
	}
	annotated, ok := mutate.Annotations(img, s.Annotations).(v1.Image)
	if !ok {
		return nil, errors.New("an image with annotations is no image")
	}
	return annotated, nil
}

// Save writes the image to file in the form of `docker save`, which docker, kind and containerd load. Missing folders are
// made; a failure leaves no half file behind, and what was there before as it was. Without a registry in tag they all read
// it as docker.io/library/<tag>.
func Save(file, tag string, img v1.Image) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	return replace(file, func(w io.Writer) error { return tarball.Write(ref, img, w) })
}

// replace writes file as write does, whole or not at all.
func replace(file string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return os.Rename(f.Name(), file)
}
