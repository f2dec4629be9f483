import { useState } from 'preact/hooks'
import { Action } from './action.ts'
import { request, subresourcePath } from './api.ts'
import { failureOf, type Failure } from './failure.ts'
import { html } from './html.ts'
import { missingPermission, useAllowed, type Access } from './permission.ts'
import { excludedBy, powerVerbs, type PowerVerb } from './power-state.ts'

interface PowerProps {
  readonly namespace: string
  readonly name: string
  /** Of the config; empty while it has none. */
  readonly phase: string
  /** Shows why a request was refused, or removes it. */
  readonly report: (failure: Failure | undefined) => void
}

const done: { readonly [V in PowerVerb]: string } = { start: 'started', stop: 'stopping', restart: 'restarting' }

/** Start, stop and restart of a config. */
export function Power({ namespace, name, phase, report }: PowerProps) {
  const [busy, setBusy] = useState<PowerVerb>()
  const [outcome, setOutcome] = useState('')
  const run = async (verb: PowerVerb) => {
    setBusy(verb)
    report(undefined)
    setOutcome('')
    // The API server requires `update` for PUT, as the webhooks do for every method.
    await request('PUT', subresourcePath('virtualmachineconfigs', namespace, name, verb), { body: {} }).then(
      () => setOutcome(`${name} ${done[verb]}`),
      (error: unknown) => report(failureOf(error)),
    )
    setBusy(undefined)
  }
  return html`<span class="power" role="group" aria-label=${`Power of ${name}`}>
    ${powerVerbs.map(
      (verb) =>
        html`<${PowerButton}
          verb=${verb}
          namespace=${namespace}
          name=${name}
          reason=${busy === undefined ? excludedBy(verb, phase) : `${busy} is in progress`}
          run=${() => void run(verb)}
        />`,
    )}
    <span class="hidden" role="status">${outcome}</span>
  </span>`
}

interface PowerButtonProps {
  readonly verb: PowerVerb
  readonly namespace: string
  readonly name: string
  readonly reason: string | undefined
  readonly run: () => void
}

function PowerButton({ verb, namespace, name, reason, run }: PowerButtonProps) {
  const access: Access = {
    verb: 'update',
    group: 'subresources.virtset.io',
    resource: 'virtualmachineconfigs',
    subresource: verb,
    namespace,
    name,
  }
  const isAllowed = useAllowed(access)
  return html`<${Action}
    label=${`${verb} ${name}`}
    reason=${isAllowed === false ? missingPermission(access) : reason}
    run=${run}
  >
    ${verb}
  </${Action}>`
}
