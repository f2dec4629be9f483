import type { ReceivedCause } from '../api/received-status.ts'
import type { ApiError } from '../runtime/api-error.ts'
import { clusterLine } from './error-line.ts'
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

function refusal(error: ApiError): string {
  const causes = error.status.details?.causes ?? []
  const head = refusalLine(error)
  return causes.length < 2 ? head : [head, ...causes.map(causeLine)].join('')
}

const causeLine = ({ field, message }: ReceivedCause): string =>
  clusterLine(`* ${[field, message].filter((text) => text !== undefined).join(': ')}`)

/** The form of kubectl, but in one line. */
export const refusalLine = ({ status: { reason, message } }: ApiError): string =>
  clusterLine(`Error from server (${reason}): ${message}`)
