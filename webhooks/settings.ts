import { parseArgs } from 'node:util'
import { logLevelOf, type LogLevel } from '../runtime/log.ts'

export interface Settings {
  readonly namespace: string
  /** The port for admission reviews. */
  readonly port: number
  readonly logLevel: LogLevel
  readonly source: ClusterSource | FolderSource
}

/** Presets come from the API server. */
export interface ClusterSource {
  readonly kind: 'cluster'
  /** The port for the users' subresources that are answered at once. */
  readonly subresourcesPort: number
  /** The port for the users' sessions. */
  readonly sessionsPort: number
  readonly healthPort: number
  /** Absent: no metrics are served. */
  readonly metricsPort?: string
  readonly pod: { readonly name: string; readonly uid: string }
  /** The Services of admission, of the subresources and of sessions. */
  readonly services: readonly [string, string, string]
  /** The Secret with the certificates. */
  readonly secretName: string
  /** Absent: the webhooks issue their own certificates. */
  readonly certificateDirectory?: string
  /** The file with the token for handlers. Absent: no sessions are served. */
  readonly handlerToken?: string
  /** How long to serve after SIGTERM. */
  readonly propagationMs: number
}

/** Presets come from files, without a cluster. */
export interface FolderSource {
  readonly kind: 'folder'
  readonly healthPort: number
  readonly folder: string
  readonly certificate: { readonly cert: string; readonly key: string }
}

/** @throws if `args` are incomplete or unknown */
export function readSettings(env: { readonly [name: string]: string | undefined }, args: readonly string[]): Settings {
  const { values } = parseArgs({
    args: [...args],
    options: {
      presets: { type: 'string' },
      port: { type: 'string', default: env['PORT'] ?? '8443' },
      cert: { type: 'string' },
      key: { type: 'string' },
    },
  })
  const { presets: folder, cert, key, port } = values
  const common = {
    namespace: env['NAMESPACE'] ?? 'virtset-system',
    port: Number(port),
    logLevel: logLevelOf(env['LOG_LEVEL']),
  }
  if (folder === undefined) return { ...common, source: readCluster(env) }
  if (cert === undefined || key === undefined) throw new Error('--presets requires --cert and --key')
  const healthPort = Number(env['HEALTH_PORT'] ?? 0)
  return { ...common, source: { kind: 'folder', healthPort, folder, certificate: { cert, key } } }
}

function readCluster(env: { readonly [name: string]: string | undefined }): ClusterSource {
  const { METRICS_PORT: metricsPort, CERTIFICATE_DIRECTORY: certificateDirectory, HANDLER_TOKEN: handlerToken } = env
  return {
    kind: 'cluster',
    subresourcesPort: Number(env['SUBRESOURCES_PORT'] ?? 8444),
    sessionsPort: Number(env['SESSIONS_PORT'] ?? 8445),
    healthPort: Number(env['HEALTH_PORT'] ?? 8080),
    ...(metricsPort === undefined ? {} : { metricsPort }),
    pod: { name: env['POD_NAME'] ?? 'virtset-webhooks', uid: env['POD_UID'] ?? '' },
    services: [
      env['SERVICE'] ?? 'virtset-webhooks',
      env['SUBRESOURCES_SERVICE'] ?? 'virtset-subresources',
      env['SESSIONS_SERVICE'] ?? 'virtset-sessions',
    ],
    secretName: env['SECRET'] ?? 'virtset-webhooks-certificates',
    ...(certificateDirectory === undefined ? {} : { certificateDirectory }),
    ...(handlerToken === undefined ? {} : { handlerToken }),
    propagationMs: Number(env['PROPAGATION_SECONDS'] ?? 10) * 1000,
  }
}
