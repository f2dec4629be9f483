import type { ApiError } from '../runtime/api-error.ts'
import { exitCodes, type ExitCode } from './failure.ts'
import type { Cluster, World } from './world.ts'

/** Runs requests to the cluster. A refusal is printed in full, as by kubectl. @throws Usage without a cluster */
export async function orRefusal(
  run: () => Promise<ExitCode>,
  cluster: Cluster,
  world: Pick<World, 'err'>,
): Promise<ExitCode> {
  const [{ ApiError, ApiUnreachable }, { clusterFailure }] = await Promise.all([
    import('../runtime/api-error.ts'),
    import('./cluster.ts'),
  ])
  try {
    return await run()
  } catch (error) {
    if (error instanceof ApiUnreachable) throw clusterFailure(error, cluster, '')
    if (!(error instanceof ApiError)) throw error
    world.err(refusal(error))
    return exitCodes.refused
  }
}

function refusal({ status }: ApiError): string {
  const causes = status.details?.causes ?? []
  const head = `Error from server (${status.reason}): ${status.message}\n`
  return causes.length < 2 ? head : `${head}${causes.map((cause) => `* ${cause.field}: ${cause.message}\n`).join('')}`
}
