import { useEffect, useState } from 'preact/hooks'
import { Action } from './action.ts'
import { failureOf, type Failure } from './failure.ts'
import { html } from './html.ts'
import { vmHref } from './place.ts'
import { Problem } from './problem.ts'
import { readBy, type Read } from './text.ts'

/** What a preset would do, as the local server computes it. */
export interface PresetImpact extends Read {
  readonly overlaps: readonly string[]
  readonly vms: number
  readonly matched: number
  readonly different: number
  readonly refused: number
  readonly freed: number
  readonly shown: readonly ShownVm[]
}

interface ShownVm {
  readonly namespace: string
  readonly name: string
  readonly outcome?: string
  readonly why?: string
  readonly changes: readonly { readonly path: string; readonly before?: unknown; readonly after?: unknown }[]
  readonly causes: readonly string[]
  readonly isFreed: boolean
}

interface ImpactProps {
  readonly text: string
  /** Whether the text is accepted. */
  readonly isFine: boolean
  /** Whether the preset exists: its impact is then computed at once, to show the VMs that it matches. */
  readonly isStored: boolean
}

/** The VMs that a preset matches, and how they would differ. */
export function Impact({ text, isFine, isStored }: ImpactProps) {
  const [{ of, impact }, setImpact] = useState<{ readonly of: string; readonly impact?: PresetImpact }>({ of: '' })
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<Failure>()
  const assess = async () => {
    setBusy(true)
    setFailure(undefined)
    try {
      setImpact({ of: text, impact: (await readBy('/impact', text)) as PresetImpact })
    } catch (error) {
      setFailure(failureOf(error))
    }
    setBusy(false)
  }
  useEffect(() => {
    if (isStored) void assess()
  }, [])
  const reason = isBusy ? 'it is in progress' : isFine ? undefined : 'correct the text first'
  return html`<section class="card" aria-labelledby="impact" aria-busy=${isBusy}>
    <div class="bar">
      <h2 id="impact">VMs and impact</h2>
      <span class="count" role="status" id="impact-state">
        ${isBusy ? 'Computing …' : impact === undefined ? '' : `${summary(impact)}${of === text ? '' : ', of an earlier text'}`}
      </span>
      <span class="grow"></span>
      <${Action} label="Show impact" reason=${reason} run=${() => void assess()}>Show impact</${Action}>
    </div>
    <${Problem} failure=${failure} />
    ${
      impact !== undefined &&
      impact.overlaps.length > 0 &&
      html`<h3>Possible conflicts</h3>
        <ul class="overlaps">
          ${impact.overlaps.map((overlap) => html`<li>${overlap}</li>`)}
        </ul>`
    }
    <ul class="impact">
      ${impact?.shown.map((vm) => html`<${Affected} key=${`${vm.namespace}/${vm.name}`} vm=${vm} />`)}
    </ul>
  </section>`
}

function summary({ vms, matched, different, refused, freed }: PresetImpact): string {
  const parts = [
    `matches ${matched} of ${vms} ${vms === 1 ? 'VM' : 'VMs'}`,
    different + refused + freed === 0 ? 'nothing would differ' : '',
    different > 0 ? `${different} would differ` : '',
    refused > 0 ? `${refused} newly refused` : '',
    freed > 0 ? `${freed} no longer refused` : '',
  ]
  return parts.filter(Boolean).join(', ')
}

const Affected = ({ vm }: { readonly vm: ShownVm }) =>
  html`<li>
    <div class="affected">
      <a href=${vmHref(vm.namespace, vm.name)}>${vm.name}</a> <span class="muted">${vm.namespace}</span>
      ${vm.outcome !== undefined && html`<span class=${`outcome ${vm.outcome.replace(' ', '-')}`}>${vm.outcome}</span>`}
      ${vm.why !== undefined && html`<span class="muted">${vm.why}</span>`}
      ${vm.isFreed && html`<span class="outcome applied">no longer refused</span>`}
      ${vm.causes.length > 0 && html`<span class="outcome broken">refused</span>`}
    </div>
    <ul class="changes">
      ${vm.causes.map((cause) => html`<li class="removed">${cause}</li>`)}
      ${vm.changes.map(
        ({ path, before, after }) =>
          html`<li>
            <code>${path}</code>
            ${before !== undefined && html`<del>${JSON.stringify(before)}</del>`}
            ${after !== undefined && html`<ins>${JSON.stringify(after)}</ins>`}
          </li>`,
      )}
    </ul>
  </li>`
