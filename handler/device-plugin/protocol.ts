import { join } from 'node:path'
import { loadSync, type PackageDefinition, type ServiceDefinition } from '@grpc/proto-loader'

/** The kubelet's device plugin API, as Kubernetes publishes it. */
const file = join(import.meta.dirname, 'v1beta1.proto')

export const version = 'v1beta1'

export const registrationService = loadService(file, 'v1beta1.Registration')
export const devicePluginService = loadService(file, 'v1beta1.DevicePlugin')

export interface RegisterRequest {
  readonly version: string
  /** The name of the plugin's socket beside the kubelet's. */
  readonly endpoint: string
  readonly resourceName: string
  readonly options: PluginOptions
}

export interface PluginOptions {
  readonly preStartRequired: boolean
  readonly getPreferredAllocationAvailable: boolean
}

export interface DeviceList {
  readonly devices: readonly { readonly ID: string; readonly health: 'Healthy' | 'Unhealthy' }[]
}

export interface AllocateRequest {
  readonly containerRequests: readonly { readonly devicesIds: readonly string[] }[]
}

export interface AllocateResponse {
  readonly containerResponses: readonly ContainerAllocation[]
}

/** What a container gets. */
export interface ContainerAllocation {
  readonly devices?: readonly DeviceSpec[]
  /** Variables of its environment. */
  readonly envs?: { readonly [name: string]: string }
}

/** A device that the container runtime creates in a container, with the type, numbers and mode of `hostPath`. */
export interface DeviceSpec {
  readonly containerPath: string
  readonly hostPath: string
  /** For the container's cgroup: `r`, `w` and `m` (mknod). */
  readonly permissions: 'rw'
}

/** A service of a `.proto` file. The names of its fields are in camel case. */
export function loadService(path: string, name: string): ServiceDefinition {
  const definition = loadSync(path, { arrays: true, defaults: true })[name]
  if (definition === undefined || !isService(definition)) throw new Error(`${path} has no service ${name}`)
  return definition
}

function isService(definition: PackageDefinition[string]): definition is ServiceDefinition {
  return !('format' in definition)
}
