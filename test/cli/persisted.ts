import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { ApiError } from '../../runtime/api-error.ts'
import type { Output } from './world.ts'

/** Without the metadata that the API server sets. */
const stored = ({ metadata, spec }: VirtualMachine) => ({
  labels: metadata.labels ?? {},
  annotations: metadata.annotations,
  finalizers: metadata.finalizers,
  spec,
})

/** Identities, which are derived from the request's uid. */
export const withoutIdentity = (result: Result): Result =>
  JSON.parse(
    JSON.stringify(result)
      .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'a uuid')
      .replaceAll(/"52:54:00(:[0-9a-f]{2}){3}"/g, '"a MAC address"')
      // Of the domain of a VM with `generateName`, whose suffix is derived from the UUID.
      .replaceAll(/-[0-9a-f]{12}(?=["_])/g, '-a suffix'),
  )

/** The result that must be equal for every way of completion: the stored VM, or the output of kubectl. */
export type Result = ReturnType<typeof stored> | { readonly refusal: string }

/** @param creating the API server's response to the creation of a VM */
export async function resultOfCluster(creating: Promise<unknown>): Promise<Result> {
  try {
    return stored((await creating) as VirtualMachine)
  } catch (error) {
    if (error instanceof ApiError) return { refusal: `${kubectlText(error)}\n` }
    throw error
  }
}

/** @param result of `kubectl vm complete -o json -q` */
export const resultOfOutput = ({ code, out, err }: Output): Result =>
  code === 0 ? stored(JSON.parse(out)) : { refusal: err }

/** What kubectl prints for a refusal, from its Status. */
function kubectlText({ status }: ApiError): string {
  const {
    causes = [],
    kind,
    name,
  } = (status.details ?? {}) as {
    causes?: { field: string; message: string }[]
    kind?: string
    name?: string
  }
  const lines = causes.map(({ field, message }) => `${field}: ${message}`)
  const head = `The ${kind} "${name}" is invalid: `
  return lines.length === 1 ? `${head}${lines[0]}` : [head, ...lines.map((line) => `* ${line}`)].join('\n')
}
