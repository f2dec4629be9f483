import { logLevelOf, type LogLevel } from '../runtime/log.ts'

export interface Settings {
  /** The namespace of the lease. */
  readonly namespace: string
  /** Unique among the replicas. */
  readonly identity: string
  /** The image of launcher pods. */
  readonly launcherImage: string
  readonly healthPort: number
  /** Absent: no metrics are served. */
  readonly metricsPort?: string
  readonly logLevel: LogLevel
  /** The number of VMs worked on at once. */
  readonly concurrency: number
  /** Connections to the API server, besides watches. */
  readonly connections: number
  /** Whether profiles of equal nodes share their capabilities. */
  readonly sharesCapabilities: boolean
}

/** @throws where LAUNCHER_IMAGE is not set, a number is not a positive integer, or a switch is not true or false */
export function readSettings(env: { readonly [name: string]: string | undefined }, pid: number): Settings {
  const { LAUNCHER_IMAGE: launcherImage, METRICS_PORT: metricsPort } = env
  if (!launcherImage) throw new Error('LAUNCHER_IMAGE must name the launcher image')
  return {
    namespace: env['NAMESPACE'] ?? 'virtset-system',
    identity: env['POD_NAME'] ?? `${env['HOSTNAME'] ?? 'controller'}-${pid}`,
    launcherImage,
    healthPort: Number(env['HEALTH_PORT'] ?? 8080),
    ...(metricsPort === undefined ? {} : { metricsPort }),
    logLevel: logLevelOf(env['LOG_LEVEL']),
    // A pass over a VM is a few requests in a row, so slightly more VMs than connections keep these busy.
    concurrency: countOf(env, 'CONCURRENCY', 10),
    connections: countOf(env, 'CONNECTIONS', 8),
    sharesCapabilities: isOn(env, 'SHARE_CAPABILITIES'),
  }
}

function countOf(env: { readonly [name: string]: string | undefined }, name: string, byDefault: number): number {
  const text = env[name] ?? `${byDefault}`
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text)
  throw new Error(`${name} is "${text}", but must be an integer from 1 to 9999`)
}

function isOn(env: { readonly [name: string]: string | undefined }, name: string): boolean {
  const text = env[name] ?? 'false'
  if (text === 'true' || text === 'false') return text === 'true'
  throw new Error(`${name} is "${text}", but must be true or false`)
}
