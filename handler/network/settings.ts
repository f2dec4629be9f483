import { logLevelOf, type LogLevel } from '../../runtime/log.ts'

export interface Settings {
  /** The directory of the socket, which the handler mounts too. */
  readonly socketDirectory: string
  /** The directory with the executables of plugins that are not virtset's own. */
  readonly pluginDirectory: string
  /** The control groups of the node, as mounted here. */
  readonly cgroupDirectory: string
  readonly logLevel: LogLevel
}

const root = '/var/lib/kubelet/plugins/network.virtset.io'

export function readSettings(env: { readonly [name: string]: string | undefined }): Settings {
  return {
    socketDirectory: env['SOCKET_DIRECTORY'] ?? `${root}/run`,
    pluginDirectory: env['PLUGIN_DIRECTORY'] ?? `${root}/bin`,
    cgroupDirectory: env['CGROUP_DIRECTORY'] ?? '/sys/fs/cgroup',
    logLevel: logLevelOf(env['LOG_LEVEL']),
  }
}
