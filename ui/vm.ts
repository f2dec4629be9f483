import { useEffect, useRef, useState } from 'preact/hooks'
import { objectPath, request, textOf, type Metadata } from './api.ts'
import { Console } from './console.ts'
import { html } from './html.ts'
import { Badge, Power } from './list.ts'
import { Screen } from './screen.ts'
import { Spec } from './spec.ts'
import { ageText } from './table.ts'
import { useWatched } from './watched.ts'

interface VirtualMachine {
  readonly metadata: Metadata
  readonly spec: {
    readonly domain: {
      readonly type?: string
      readonly title?: string
      readonly devices?: { readonly graphics?: readonly unknown[]; readonly serials?: readonly unknown[] }
    }
  }
  readonly status?: {
    readonly phase?: string
    readonly reason?: string
    readonly message?: string
    readonly nodeName?: string
    readonly podIP?: string
    readonly machine?: string
    readonly memory?: string
    readonly cpus?: number
    readonly presets?: string
    readonly conditions?: readonly Condition[]
  }
}

interface Condition {
  readonly type: string
  readonly status: string
  readonly reason?: string
  readonly message?: string
}

interface KubeEvent {
  readonly metadata: Metadata
  readonly type?: string
  readonly reason?: string
  readonly message?: string
  readonly count?: number
  readonly lastTimestamp?: string | null
  readonly eventTime?: string | null
}

interface Ref {
  readonly namespace: string
  readonly name: string
}

export function Vm({ namespace, name }: Ref) {
  const collection = objectPath('virtualmachines', namespace, '').slice(0, -1)
  const { objects, isLoaded, error } = useWatched<VirtualMachine>(
    `${collection}?fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`,
  )
  const [vm] = objects
  useEffect(() => {
    document.title = `${name} · virtset`
    return () => (document.title = 'virtset')
  }, [name])
  const isRunning = vm?.status?.phase === 'Running'
  const owner = vm?.metadata.ownerReferences?.find(({ controller }) => controller === true)
  const phase = vm?.metadata.deletionTimestamp === undefined ? (vm?.status?.phase ?? 'Pending') : 'Terminating'
  return html`
    <div class="bar">
      <a href="#/virtualmachines" aria-label="Back to the virtual machines">←</a>
      <h1>${name}</h1>
      <span class="muted">${namespace}</span>
      ${vm !== undefined && html`<${Badge} phase=${phase} />`}
      <span class="grow"></span>
      ${
        (vm === undefined ? isLoaded : owner?.kind === 'VirtualMachineConfig') &&
        html`<${Power} namespace=${namespace} name=${name} />`
      }
      ${vm !== undefined && html`<${Delete} namespace=${namespace} name=${name} />`}
    </div>
    ${error !== '' && html`<p class="problem" role="alert">${error}</p>`}
    ${isLoaded && vm === undefined && html`<p class="empty">No VM of this name runs. If it has a config, start it.</p>`}
    ${
      isRunning &&
      html`<div class="reach" key=${vm.metadata.uid}>
        <${Screen}
          namespace=${namespace}
          name=${name}
          hasScreen=${(vm.spec.domain.devices?.graphics ?? []).length > 0}
        />
        <${Console}
          namespace=${namespace}
          name=${name}
          hasSerial=${(vm.spec.domain.devices?.serials ?? []).length > 0}
        />
      </div>`
    }
    ${
      vm !== undefined &&
      html`<div class="columns" key=${vm.metadata.uid}>
          <${State} vm=${vm} />
          <${Events} namespace=${namespace} uid=${vm.metadata.uid} />
        </div>
        <${Spec}
          namespace=${namespace}
          name=${name}
          uid=${vm.metadata.uid}
          generation=${vm.metadata.generation ?? 0}
        />`
    }
  `
}

function State({ vm: { metadata, spec, status = {} } }: { readonly vm: VirtualMachine }) {
  const facts = [
    ['Reason', [status.reason, status.message].filter(Boolean).join(': ')],
    ['Node', status.nodeName],
    ['Address', status.podIP],
    ['Machine', status.machine],
    ['CPUs', status.cpus],
    ['Memory', status.memory],
    ['Accelerator', spec.domain.type],
    ['Presets', status.presets],
    ['Title', spec.domain.title],
    ['Created', metadata.creationTimestamp],
  ].filter(([, value]) => value !== undefined && value !== '')
  return html`<section class="card" aria-labelledby="state">
    <h2 id="state">State</h2>
    <dl>
      ${facts.map(
        ([label, value]) =>
          html`<dt>${label}</dt>
            <dd>${value}</dd>`,
      )}
    </dl>
    <h3>Conditions</h3>
    <ul class="conditions">
      ${(status.conditions ?? []).map(
        ({ type, status: value, reason, message }) =>
          html`<li>
            <span class=${`mark ${value.toLowerCase()}`}>${value}</span>
            <span><b>${type}</b> ${reason} <span class="muted">${message}</span></span>
          </li>`,
      )}
    </ul>
  </section>`
}

function Events({ namespace, uid }: { readonly namespace: string; readonly uid: string }) {
  const selector = encodeURIComponent(`involvedObject.uid=${uid}`)
  const { objects, error } = useWatched<KubeEvent>(
    `/api/v1/namespaces/${encodeURIComponent(namespace)}/events?fieldSelector=${selector}`,
  )
  const at = (event: KubeEvent) => event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? ''
  const newest = objects.toSorted((a, b) => (at(a) < at(b) ? 1 : -1))
  return html`<section class="card" aria-labelledby="events">
    <h2 id="events">Events</h2>
    ${error !== '' && html`<p class="problem">${error}</p>`}
    ${newest.length === 0 && html`<p class="muted">None in the last hour.</p>`}
    <ul class="events">
      ${newest.map(
        (event) =>
          html`<li key=${event.metadata.uid}>
            <span class="muted">${ageText(at(event), Date.now())}</span>
            <span>
              <b class=${event.type === 'Warning' ? 'warning' : ''}>${event.reason}</b> ${event.message}
              ${(event.count ?? 1) > 1 && html`<span class="muted"> × ${event.count}</span>`}
            </span>
          </li>`,
      )}
    </ul>
  </section>`
}

function Delete({ namespace, name }: Ref) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [error, setError] = useState('')
  const remove = async () => {
    dialog.current?.close()
    await request('DELETE', objectPath('virtualmachines', namespace, name)).then(
      () => setError(''),
      (failure) => setError(textOf(failure)),
    )
  }
  return html`
    <button class="danger" onClick=${() => dialog.current?.showModal()}>Delete …</button>
    ${error !== '' && html`<span class="problem" role="alert">${error}</span>`}
    <dialog ref=${dialog} aria-labelledby="delete-title">
      <h2 id="delete-title">Delete ${name}?</h2>
      <p>The guest is shut down, then the VM is removed from namespace ${namespace}. Its volumes remain.</p>
      <div class="buttons">
        <button autofocus onClick=${() => dialog.current?.close()}>Cancel</button>
        <button class="danger" id="delete-now" onClick=${remove}>Delete</button>
      </div>
    </dialog>
  `
}
