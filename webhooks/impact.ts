import { setImmediate as breathe } from 'node:timers/promises'
import { identityOf } from '../api/template.ts'
import { complete } from '../completion/complete.ts'
import type { NodeCapabilities } from '../completion/nodes.ts'
import { impactOn, isSameSelection, type Impact } from '../completion/impact.ts'
import { withPreset } from '../presets/candidates.ts'
import type { Candidates, Namespace } from '../presets/candidates.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import type { Clock } from '../runtime/clock.ts'
import { unpack } from './machines.ts'
import type { KnownMachine, Machines } from './machines.ts'

export interface ImpactOptions {
  readonly machines: Machines
  readonly candidates: Candidates
  readonly capabilities: () => NodeCapabilities
  readonly namespace: (name: string) => Namespace
  readonly clock: Clock
}

/** After so long whoever writes a preset has waited long enough, and is told of what was looked at. */
const patienceMs = 300
/** So long other reviews wait at most. */
const sliceMs = 10

/**
 * How many of the VMs that there are a preset would have changed: a sentence for its author, or none. VMs are looked at in slices, one preset after the
 * other, so that reviews of VMs go on meanwhile.
 */
export function createImpact(options: ImpactOptions): (preset: CompiledPreset) => Promise<readonly string[]> {
  let last: Promise<unknown> = Promise.resolve()
  return (preset) => {
    const untilMs = options.clock.monotonic() + patienceMs
    const counted = last.then(() => count(preset, untilMs, options))
    last = counted.catch(() => {})
    return counted.then(warningOf)
  }
}

interface Tally {
  readonly vms: number
  looked: number
  different: number
  refused: number
}

/** @param untilMs by the clock; what was not looked at until then is left */
async function count(given: CompiledPreset, untilMs: number, options: ImpactOptions): Promise<Tally> {
  const { machines, candidates, namespace, clock } = options
  // What a preset that only looks on would do, if it were applied.
  const preset: CompiledPreset = { ...given, mode: 'Apply' }
  const alternatives = { before: candidates, after: withPreset(candidates, preset) }
  const known = machines.list()
  const tally: Tally = { vms: known.length, looked: 0, different: 0, refused: 0 }
  let sliceEndMs = clock.monotonic() + sliceMs
  for (const machine of known) {
    const nowMs = clock.monotonic()
    if (nowMs >= untilMs) break
    if (nowMs >= sliceEndMs) {
      await breathe()
      sliceEndMs = clock.monotonic() + sliceMs
    }
    tally.looked += 1
    const at = namespace(machine.metadata.namespace ?? '')
    const impact = isSameSelection(alternatives, machine.metadata.labels ?? {}, at)
      ? undefined
      : impactOf(machine, at, alternatives, options)
    if (impact?.kind === 'different') tally.different += 1
    if (impact?.kind === 'refused') tally.refused += 1
  }
  return tally
}

function impactOf(
  known: KnownMachine,
  namespace: Namespace,
  alternatives: Parameters<typeof impactOn>[2],
  { capabilities }: ImpactOptions,
): Impact | undefined {
  const machine = unpack(known)
  if (machine === undefined) return undefined
  const entropy = { uid: identityOf(machine) ?? machine.metadata.uid ?? '' }
  return impactOn(machine, namespace, alternatives, (presets) =>
    complete(machine, { presets, namespace, capabilities: capabilities(), entropy, skipAnnotation: true }),
  )
}

function warningOf({ vms, looked, different, refused }: Tally): string[] {
  const isWhole = looked === vms
  if (different + refused === 0)
    return isWhole ? [] : [`none of ${looked} VMs looked at would have changed; there are ${vms}`]
  const least = isWhole ? '' : 'at least '
  const would = [
    ...(different > 0 ? [`changed ${least}${different}`] : []),
    ...(refused > 0 ? [`refused ${least}${refused}`] : []),
  ]
  const seen = isWhole ? `${vms} VMs that there are` : `${looked} looked at of ${vms} VMs`
  return [`would have ${would.join(' and ')} of the ${seen}; they stay as they are`]
}
