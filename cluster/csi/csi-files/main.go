// csi-files is the CSI driver of the storage tests. A volume is a sparse file in a directory that all nodes of the
// development cluster see, so each node can use each volume. The nodes share the host's loop devices.
//
// It registers itself with the kubelet: the Go module of the usual node-driver-registrar is not available everywhere.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const driverName = "files.csi.virtset.io"

func main() {
	data := flag.String("data", "", "directory of the volumes and snapshots")
	socket := flag.String("endpoint", "", "socket for CSI")
	kubelet := flag.String("register", "", "socket in the kubelet's directory of plugins; absent for the controller")
	node := flag.String("node", "", "name of the node")
	flag.Parse()
	log.Fatal(run(store{*data}, *socket, *kubelet, *node))
}

func run(files store, socket, kubelet, node string) error {
	if err := files.prepare(); err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() {
		ended <- serve(socket, files, func(server *grpc.Server) {
			csi.RegisterIdentityServer(server, identity{})
			csi.RegisterControllerServer(server, controller{store: files})
			csi.RegisterNodeServer(server, nodeServer{store: files, name: node})
		})
	}()
	if kubelet != "" {
		go func() {
			ended <- serve(kubelet, files, func(server *grpc.Server) {
				registration.RegisterRegistrationServer(server, registrar{endpoint: socket})
			})
		}()
	}
	return <-ended
}

// serve listens on a unix socket, which a process that was killed can have left behind.
func serve(socket string, files store, register func(*grpc.Server)) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", socket, err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(oneAtATime(files)))
	register(server)
	return server.Serve(listener)
}

// oneAtATime runs one request at a time, of all processes of the driver.
func oneAtATime(files store) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		lock, err := os.Open(files.directory)
		if err != nil {
			return nil, err
		}
		defer lock.Close()
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
			return nil, err
		}
		response, err := handle(ctx, request)
		if err != nil {
			log.Printf("%s: %v", info.FullMethod, err)
		}
		return response, err
	}
}

// registrar tells the kubelet where the driver listens.
type registrar struct {
	registration.UnimplementedRegistrationServer
	endpoint string
}

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              driverName,
		Endpoint:          r.endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (registrar) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered: %v %s", status.PluginRegistered, status.Error)
	return &registration.RegistrationStatusResponse{}, nil
}
