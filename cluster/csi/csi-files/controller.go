package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "1"}, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (identity) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}
	online := &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		{Type: &csi.PluginCapability_Service_{Service: service}},
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: online}},
	}}, nil
}

type controller struct {
	csi.UnimplementedControllerServer
	store store
}

func (controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, each := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		rpc := &csi.ControllerServiceCapability_RPC{Type: each}
		response.Capabilities = append(response.Capabilities,
			&csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: rpc}})
	}
	return response, nil
}

func (controller) ValidateVolumeCapabilities(
	_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	confirmed := &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: request.VolumeCapabilities}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: confirmed}, nil
}

func (c controller) CreateVolume(
	_ context.Context, request *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	kind := fileSystem
	for _, each := range request.VolumeCapabilities {
		if each.GetBlock() != nil {
			kind = blockVolume
		}
	}
	id := request.Name + kind
	created, err := createOnce(c.store.volume(id), func(unfinished string) error {
		return c.fill(unfinished, request, kind)
	})
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:      id,
		CapacityBytes: created.Size(),
		ContentSource: request.VolumeContentSource,
	}}, nil
}

// fill makes the file of a volume. If its source is smaller, NodePublishVolume enlarges the file system.
func (c controller) fill(path string, request *csi.CreateVolumeRequest, kind string) error {
	bytes := request.GetCapacityRange().GetRequiredBytes()
	source := c.sourceOf(request.VolumeContentSource)
	if source == "" {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
		if err := os.Truncate(path, bytes); err != nil || kind != fileSystem {
			return err
		}
		return execute("mkfs.xfs", "-q", "-f", path)
	}
	information, err := os.Stat(source)
	if os.IsNotExist(err) {
		return status.Errorf(codes.NotFound, "%s does not exist", filepath.Base(source))
	}
	if err != nil {
		return err
	}
	if information.Size() > bytes {
		return status.Errorf(codes.OutOfRange, "the source has %d bytes, the volume only %d", information.Size(), bytes)
	}
	if err := copyTo(source, path); err != nil {
		return err
	}
	return os.Truncate(path, bytes)
}

func (c controller) sourceOf(source *csi.VolumeContentSource) string {
	if snapshot := source.GetSnapshot(); snapshot != nil {
		return c.store.snapshot(snapshot.SnapshotId)
	}
	if volume := source.GetVolume(); volume != nil {
		return c.store.volume(volume.VolumeId)
	}
	return ""
}

func (c controller) DeleteVolume(
	_ context.Context, request *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, remove(c.store.volume(request.VolumeId))
}

func (c controller) CreateSnapshot(
	_ context.Context, request *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	id := request.Name + filepath.Ext(request.SourceVolumeId)
	created, err := createOnce(c.store.snapshot(id), func(unfinished string) error {
		return copyTo(c.store.volume(request.SourceVolumeId), unfinished)
	})
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
		SnapshotId:     id,
		SourceVolumeId: request.SourceVolumeId,
		SizeBytes:      created.Size(),
		CreationTime:   timestamppb.New(created.ModTime()),
		ReadyToUse:     true,
	}}, nil
}

func (c controller) DeleteSnapshot(
	_ context.Context, request *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	return &csi.DeleteSnapshotResponse{}, remove(c.store.snapshot(request.SnapshotId))
}

func (c controller) ControllerExpandVolume(
	_ context.Context, request *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	bytes := request.GetCapacityRange().GetRequiredBytes()
	if err := grow(c.store.volume(request.VolumeId), bytes); err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: bytes}, nil
}
