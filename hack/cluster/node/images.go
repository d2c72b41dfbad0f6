package node

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// importImages gives containerd all images of the archives.
func (c Config) importImages(ctx context.Context) error {
	for _, file := range append([]string{c.Pause}, c.Images...) {
		if err := ctr(ctx, "images", "import", file); err != nil {
			return fmt.Errorf("importing %s: %w", file, err)
		}
	}
	return nil
}

// maxManifest bounds the manifest of an archive.
const maxManifest = 1 << 20

// imageName returns the first name that an archive in the form of `docker save` gives its image.
func imageName(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	archive := tar.NewReader(f)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("%s: no manifest.json in it: not an archive of `docker save`", file)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		if header.Name != "manifest.json" {
			continue
		}
		var images []struct{ RepoTags []string }
		if err := json.NewDecoder(io.LimitReader(archive, maxManifest)).Decode(&images); err != nil {
			return "", fmt.Errorf("%s: manifest.json: %w", file, err)
		}
		if len(images) == 0 || len(images[0].RepoTags) == 0 {
			return "", fmt.Errorf("%s: manifest.json names no image", file)
		}
		return images[0].RepoTags[0], nil
	}
}
