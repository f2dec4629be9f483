import { logLevelOf, type LogLevel } from '../runtime/log.ts'

export interface Settings {
  /** The node whose VMs this handler reconciles. */
  readonly nodeName: string
  /** The kubelet's root directory, as mounted here. */
  readonly kubeletRoot: string
  /** The file with what libvirt and QEMU can do on this node. */
  readonly profileFile: string
  readonly healthPort: number
  /** Absent: no metrics are served. */
  readonly metricsPort?: string
  readonly logLevel: LogLevel
}

/** @throws where NODE_NAME is not set */
export function readSettings(env: { readonly [name: string]: string | undefined }): Settings {
  const { NODE_NAME: nodeName, METRICS_PORT: metricsPort } = env
  if (!nodeName) throw new Error('NODE_NAME must be the name of the node of this handler')
  return {
    nodeName,
    kubeletRoot: env['KUBELET_ROOT'] ?? '/var/lib/kubelet',
    profileFile: env['PROFILE'] ?? '/var/run/virtset/profile/profile.json',
    healthPort: Number(env['HEALTH_PORT'] ?? 8080),
    ...(metricsPort === undefined ? {} : { metricsPort }),
    logLevel: logLevelOf(env['LOG_LEVEL']),
  }
}
