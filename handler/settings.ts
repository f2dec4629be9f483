import { logLevelOf, type LogLevel } from '../runtime/log.ts'

export interface Settings {
  /** The node whose VMs this handler reconciles. */
  readonly nodeName: string
  /** The kubelet's root directory, as mounted here. */
  readonly kubeletRoot: string
  /** The kubelet's directory of device plugins. Absent: the handler offers no devices. */
  readonly devicePlugins?: string
  /** The directory of the network agent's socket, as mounted here. */
  readonly networkDirectory: string
  /** The number of containers that can have each device at once. */
  readonly deviceCount: number
  readonly healthPort: number
  /** Absent: no metrics are served. */
  readonly metricsPort?: string
  /** Where sessions to guests are served, and the address of this pod. Absent: nowhere. */
  readonly sessions?: { readonly port: number; readonly address: string }
  readonly logLevel: LogLevel
}

/** Each device is a line in the list that the kubelet receives, in a message of up to 4 MiB. */
const mostDevices = 10_000

/** @throws if NODE_NAME is not set, or DEVICE_COUNT is not valid */
export function readSettings(env: { readonly [name: string]: string | undefined }): Settings {
  const { NODE_NAME: nodeName, METRICS_PORT: metricsPort, DEVICE_PLUGINS: devicePlugins } = env
  const { SESSION_PORT: sessionPort, POD_IP: address } = env
  if (!nodeName) throw new Error('NODE_NAME must be the name of the node of this handler')
  return {
    nodeName,
    kubeletRoot: env['KUBELET_ROOT'] ?? '/var/lib/kubelet',
    ...(devicePlugins === undefined ? {} : { devicePlugins }),
    networkDirectory: env['NETWORK_DIRECTORY'] ?? '/var/lib/kubelet/plugins/network.virtset.io/run',
    deviceCount: deviceCountOf(env['DEVICE_COUNT'] ?? '1000'),
    healthPort: Number(env['HEALTH_PORT'] ?? 8080),
    ...(metricsPort === undefined ? {} : { metricsPort }),
    ...(sessionPort === undefined || !address ? {} : { sessions: { port: Number(sessionPort), address } }),
    logLevel: logLevelOf(env['LOG_LEVEL']),
  }
}

function deviceCountOf(text: string): number {
  const count = Number(text)
  if (!Number.isInteger(count) || count < 1 || count > mostDevices)
    throw new Error(`DEVICE_COUNT=${text}: must be a whole number from 1 to ${mostDevices}`)
  return count
}
