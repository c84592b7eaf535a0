// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sums is the file of checksums, in the form of sha256sum.
const sums = "SHA256SUMS"

// entry is a file in an archive.
type entry struct {
	name string
	mode fs.FileMode
	data []byte
}

// archive writes entries into a file whose name says the format, sorted by name, of one date,
// and of no user.
func archive(file string, entries []entry, date time.Time) error {
	entries = slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return strings.Compare(a.name, b.name) })
	write := tarball
	if strings.HasSuffix(file, ".zip") {
		write = zipped
	}
	var b bytes.Buffer
	if err := write(&b, entries, date); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

func tarball(b *bytes.Buffer, entries []entry, date time.Time) error {
	packed, err := gzip.NewWriterLevel(b, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(packed)
	for _, e := range entries {
		header := &tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: e.name, Mode: int64(e.mode), Size: int64(len(e.data)), ModTime: date}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(e.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return packed.Close()
}

func zipped(b *bytes.Buffer, entries []entry, date time.Time) error {
	w := zip.NewWriter(b)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: date}
		header.SetMode(e.mode)
		into, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := into.Write(e.data); err != nil {
			return err
		}
	}
	return w.Close()
}

// digest is the SHA-256 of a file.
func digest(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	d := sha256.Sum256(data)
	return hex.EncodeToString(d[:]), nil
}

// sum writes the checksums of all files of a directory into it.
func sum(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, f := range files {
		d, err := digest(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", d, f.Name())
	}
	return os.WriteFile(filepath.Join(dir, sums), []byte(lines.String()), 0o644)
}
