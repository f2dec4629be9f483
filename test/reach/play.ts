import { parseVirtualMachine, type VirtualMachine } from '../../api/virtual-machine.ts'
import type { Preset } from '../../api/preset.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete, ungrantedReach, type CompleteOptions } from '../../completion/complete.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { compilePreset } from '../../presets/compile.ts'
import { ungranted } from './oracle.ts'
import { edited, namespace, type World } from './worlds.ts'

/** The tally of a world. The first violation ends the world. */
export interface Played {
  /** The number of VMs sent. */
  readonly sent: number
  readonly stored: number
  /** The stored VMs that reach the host with something other than the emulator. */
  readonly reaching: number
  readonly fault?: string
}

/** Plays all steps of a world, and checks every stored VM with the oracle. */
export function play({ presets, vm, steps }: World): Played {
  const tally = { sent: 0, stored: 0, reaching: 0 }
  let known = valid(presets)
  let options = optionsFor(known)
  let stored: VirtualMachine | undefined

  const send = (given: VirtualMachine): string | undefined => {
    const parsed = parseVirtualMachine(given)
    if ('causes' in parsed) return undefined
    tally.sent += 1
    const outcome = complete(parsed.vm, options)
    // The controller must check VMs that were stored while the webhooks were unavailable.
    if (ungrantedReach(parsed.vm, options).length === 0) {
      const taken = ungranted(parsed.vm, known, capabilities.emulator)
      if (taken.length > 0) return `the controller would start ${taken.join()}: ${JSON.stringify(parsed.vm)}`
    }
    if (outcome.outcome === 'refused') return undefined
    tally.stored += 1
    stored = outcome.vm
    if (reachesHost(stored)) tally.reaching += 1
    const taken = ungranted(stored, known, capabilities.emulator)
    if (taken.length > 0) return `stored ${taken.join()}: ${JSON.stringify(stored)}`
    // A removal may remove a different item each time, and the VM does not record which, so the controller may refuse
    // more.
    if (known.some(({ spec }) => spec.remove !== undefined)) return undefined
    const doubted = ungrantedReach(stored, options)
    return doubted.length === 0 ? undefined : `the controller refuses ${doubted[0]?.field}: ${JSON.stringify(stored)}`
  }

  let fault = send(vm)
  for (const step of steps) {
    if (fault !== undefined) break
    if (step.kind === 'presets') {
      known = valid([...known.filter((_, index) => index !== step.without), ...step.more])
      options = optionsFor(known)
      fault = send(stored ?? vm)
    } else if (step.kind === 'edited') fault = send(edited(stored ?? vm, step.edit))
    else if (stored !== undefined) fault = send(stored)
  }
  return { ...tally, ...(fault === undefined ? {} : { fault }) }
}

/** One preset per name, without those that would be quarantined, because these grant nothing and do not apply. */
function valid(presets: readonly Preset[]): readonly Preset[] {
  const byName = new Map(presets.map((preset) => [`${preset.kind}/${preset.metadata.name}`, preset]))
  return [...byName.values()].filter((preset) => 'preset' in compilePreset(preset))
}

const optionsFor = (presets: readonly Preset[]): CompleteOptions => ({
  presets: createCandidates(
    presets.flatMap((preset) => {
      const compiled = compilePreset(preset)
      return 'preset' in compiled ? [compiled.preset] : []
    }),
  ),
  namespace,
  capabilities,
  entropy: { uid: 'request' },
})

const reachesHost = ({ spec: { domain } }: VirtualMachine): boolean =>
  domain.seclabels !== undefined ||
  domain.cputune !== undefined ||
  domain.qemuCommandline !== undefined ||
  domain.devices?.hostdevs !== undefined ||
  domain.devices?.vsock !== undefined ||
  domain.devices?.filesystems !== undefined ||
  (domain.devices?.interfaces ?? []).some(({ type }) => type === 'bridge')
