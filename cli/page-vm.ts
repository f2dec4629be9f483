import { inNamespace, type Manifest } from '../inventory/manifests.ts'
import type { VmSettings } from './complete.ts'
import type { Considered } from './considered.ts'
import { explainInput, ranksIn } from './explain.ts'
import { explanationOf, type Explanation } from './explanation.ts'
import { Usage } from './failure.ts'
import { readText, warning, type Problem } from './page-text.ts'

/** The text of a VM, config or group as admission would complete it now. Writes nothing. */
export interface CompletedText {
  readonly problems: readonly Problem[]
  /** The object as it was written; absent if the text is refused. */
  readonly object?: Manifest
  /** Explains the completed VM; absent if the text is refused. */
  readonly explanation?: Explanation
  /** The presets in scope, also of a refused VM. */
  readonly presets?: readonly Considered[]
}

const file = 'text'

/** @throws ApiError, ApiUnreachable */
export async function completeText(text: string, settings: VmSettings): Promise<CompletedText> {
  const read = readText(text)
  if ('problems' in read) return { problems: read.problems }
  const object = inNamespace(read.object, settings.namespace)
  const done = await explainInput({ kind: 'manifest', file, stem: file, object }, settings).catch((error: unknown) => {
    if (error instanceof Usage) return error
    throw error
  })
  if (done === undefined)
    return { problems: [problem('must be VirtualMachine, VirtualMachineConfig or VirtualMachineGroup')] }
  if (done instanceof Usage) return { problems: [problem(done.message.replace(`${file}: `, ''))] }
  const { outcome, presets } = done
  const warnings = outcome.warnings.map(warning)
  if (outcome.outcome === 'refused') return { problems: [...read.problemsOf(outcome.causes), ...warnings], presets }
  const explanation = explanationOf(outcome.vm, outcome, presets, await ranksIn(outcome.vm, settings), [])
  return { problems: warnings, object, explanation, presets }
}

const problem = (message: string): Problem => ({ line: 1, severity: 'error', field: 'kind', message })
