package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// store has a sparse file for each volume (volumes/ID) and snapshot (snapshots/ID), whose size is that of the volume.
// The end of an ID states what the file is: a file system, or a block volume.
type store struct {
	directory string
}

const (
	fileSystem  = ".xfs"
	blockVolume = ".raw"
)

func (s store) prepare() error {
	for _, path := range []string{s.volume(""), s.snapshot("")} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// volume returns a path below the store, whatever the ID is.
func (s store) volume(id string) string {
	return filepath.Join(s.directory, "volumes", filepath.Base("/"+id))
}

func (s store) snapshot(id string) string {
	return filepath.Join(s.directory, "snapshots", filepath.Base("/"+id))
}

func isFileSystem(path string) bool {
	return strings.HasSuffix(path, fileSystem)
}

// createOnce makes a file that then appears as a whole. It does nothing if the file exists.
func createOnce(path string, fill func(unfinished string) error) (os.FileInfo, error) {
	if information, err := os.Stat(path); err == nil {
		return information, nil
	}
	unfinished := path + ".unfinished"
	if err := fill(unfinished); err != nil {
		return nil, errors.Join(err, os.RemoveAll(unfinished))
	}
	if err := os.Rename(unfinished, path); err != nil {
		return nil, err
	}
	return os.Stat(path)
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// copyTo copies a volume as it is at one moment if it is a file system: that is frozen meanwhile. A block volume is
// copied while its user writes.
func copyTo(path, target string) error {
	copied := func() error {
		return execute("cp", "--reflink=auto", "--sparse=always", path, target)
	}
	device, err := deviceOf(path)
	if err != nil {
		return err
	}
	if device == "" {
		return copied()
	}
	if !isFileSystem(path) {
		return errors.Join(execute("blockdev", "--flushbufs", device), copied())
	}
	return whileMounted(device, func(directory string) error {
		if err := execute("fsfreeze", "--freeze", directory); err != nil {
			return err
		}
		return errors.Join(copied(), execute("fsfreeze", "--unfreeze", directory))
	})
}

// grow enlarges a volume, also while it is in use.
func grow(path string, bytes int64) error {
	if err := os.Truncate(path, bytes); err != nil {
		return err
	}
	device, err := deviceOf(path)
	if err != nil || device == "" {
		return err
	}
	if err := execute("losetup", "--set-capacity", device); err != nil {
		return err
	}
	if !isFileSystem(path) {
		return nil
	}
	return whileMounted(device, growFileSystem)
}

// attach returns the loop device of a file, which it creates unless there is one.
func attach(path string) (string, error) {
	if device, err := deviceOf(path); err != nil || device != "" {
		return device, err
	}
	return outputOf("losetup", "--find", "--show", path)
}

// detach lets the kernel remove the loop device of a file when nothing uses it any more.
func detach(path string) error {
	device, err := deviceOf(path)
	if err != nil || device == "" {
		return err
	}
	return execute("losetup", "--detach", device)
}

// deviceOf returns the loop device of a file, or nothing.
func deviceOf(path string) (string, error) {
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return "", nil
	}
	return outputOf("losetup", "--noheadings", "--output", "NAME", "--associated", path)
}

// whileMounted calls back with a directory on which this process has mounted a device. The kernel has one file system
// for all mounts of a device, whatever their namespaces are.
func whileMounted(device string, use func(directory string) error) error {
	directory, err := os.MkdirTemp("", "csi-files-")
	if err != nil {
		return err
	}
	defer os.Remove(directory)
	if err := mount(device, directory); err != nil {
		return err
	}
	return errors.Join(use(directory), execute("umount", directory))
}

// mount accepts a copy of a mounted file system, which has the same UUID.
func mount(device, target string) error {
	return execute("mount", "-t", "xfs", "-o", "nouuid", device, target)
}

// growFileSystem enlarges a mounted file system to its device. For ext4, this would require CAP_SYS_RESOURCE, which
// containers often do not have.
func growFileSystem(mounted string) error {
	return execute("xfs_growfs", "-d", mounted)
}

func execute(program string, arguments ...string) error {
	_, err := outputOf(program, arguments...)
	return err
}

func outputOf(program string, arguments ...string) (string, error) {
	output, err := exec.Command(program, arguments...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(arguments, " "), err, output)
	}
	return strings.TrimSpace(string(output)), nil
}
