package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

type nodeServer struct {
	csi.UnimplementedNodeServer
	store store
	name  string
}

func (n nodeServer) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.name}, nil
}

func (nodeServer) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume mounts the file system of a volume, or its loop device, on the target.
func (n nodeServer) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	path, target := n.store.volume(request.VolumeId), request.TargetPath
	response := &csi.NodePublishVolumeResponse{}
	if isMounted(target) {
		return response, nil
	}
	device, err := attach(path)
	if err != nil {
		return nil, err
	}
	if !isFileSystem(path) {
		return response, errors.Join(createFile(target), execute("mount", "--bind", device, target))
	}
	if err := errors.Join(os.MkdirAll(target, 0o755), mount(device, target)); err != nil {
		return nil, err
	}
	if err := growFileSystem(target); err != nil || !request.Readonly {
		return response, err
	}
	// Other pods can write: the mount is read-only, not the file system.
	return response, execute("mount", "-o", "remount,bind,ro", target)
}

func (n nodeServer) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if isMounted(request.TargetPath) {
		if err := syscall.Unmount(request.TargetPath, 0); err != nil {
			return nil, err
		}
	}
	err := errors.Join(remove(request.TargetPath), detach(n.store.volume(request.VolumeId)))
	return &csi.NodeUnpublishVolumeResponse{}, err
}

func createFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}

func isMounted(path string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true
		}
	}
	return false
}
