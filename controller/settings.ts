import { logLevelOf, type LogLevel } from '../runtime/log.ts'

export interface Settings {
  /** Of the lease. */
  readonly namespace: string
  /** Unique among the replicas. */
  readonly identity: string
  /** The image of launcher pods. */
  readonly launcherImage: string
  readonly healthPort: number
  /** Absent: no metrics are served. */
  readonly metricsPort?: string
  readonly logLevel: LogLevel
}

/** @throws where LAUNCHER_IMAGE is not set */
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
  }
}
