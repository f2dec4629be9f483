import { useEffect, useState } from 'preact/hooks'
import { collectionPath, type Metadata } from './api.ts'
import { Badge } from './badge.ts'
import { Console } from './console.ts'
import { Delete } from './delete.ts'
import { Events } from './events.ts'
import type { Failure } from './failure.ts'
import { html } from './html.ts'
import { Metrics } from './metrics.ts'
import { textHref } from './place.ts'
import { localTime } from './table.ts'
import { Power } from './power.ts'
import { Problem } from './problem.ts'
import { Screen } from './screen.ts'
import { Spec } from './spec.ts'
import { State, type Condition } from './state.ts'
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

interface Config {
  readonly metadata: Metadata
  readonly status?: {
    readonly phase?: string
    readonly outdated?: boolean
    readonly conditions?: readonly Condition[]
  }
}

interface Ref {
  readonly namespace: string
  readonly name: string
}

const queryOf = (plural: string, { namespace, name }: Ref): string =>
  `${collectionPath(plural, namespace)}?fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`

/** A VM and the config of its name, of which either can be missing. */
export function Vm({ namespace, name }: Ref) {
  const vms = useWatched<VirtualMachine>(queryOf('virtualmachines', { namespace, name }))
  // Without the permission to list configs, the VM is shown without its power.
  const configs = useWatched<Config>(queryOf('virtualmachineconfigs', { namespace, name }))
  const [failure, setFailure] = useState<Failure>()
  const [[vm], [config]] = [vms.objects, configs.objects]
  useEffect(() => {
    document.title = `${name} · virtset`
    return () => (document.title = 'virtset')
  }, [name])
  const owner = vm?.metadata.ownerReferences?.find(({ controller }) => controller === true)
  const isOfConfig = config !== undefined && (vm === undefined || owner?.kind === 'VirtualMachineConfig')
  return html`
    <div class="bar">
      <a class="button quiet back" href="#/virtualmachines" aria-label="Back to the virtual machines">←</a>
      <h1>${name}</h1>
      <span class="muted">${namespace}</span>
      <${Phase} vm=${vm} config=${config} />
      <span class="grow"></span>
      ${config !== undefined && html`<a class="button" href=${textHref('virtualmachineconfigs', namespace, name)}>Edit config</a>`}
      ${isOfConfig && html`<${Power} namespace=${namespace} name=${name} phase=${config.status?.phase ?? ''} report=${setFailure} />`}
      ${vm !== undefined && html`<${Delete} key=${vm.metadata.uid} metadata=${vm.metadata} owner=${owner} report=${setFailure} />`}
    </div>
    <${Problem} failure=${failure} />
    ${vms.error !== '' && html`<p class="problem" role="alert">${vms.error}</p>`}
    ${vms.isLoaded && vm === undefined && configs.isLoaded && html`<${Absent} namespace=${namespace} config=${config} />`}
    ${vm !== undefined && html`<${Present} key=${vm.metadata.uid} vm=${vm} namespace=${namespace} name=${name} />`}
  `
}

interface PhaseProps {
  readonly vm: VirtualMachine | undefined
  readonly config: Config | undefined
}

function Phase({ vm, config }: PhaseProps) {
  if (vm === undefined) return config !== undefined && html`<${Badge} phase=${config.status?.phase ?? 'Stopped'} />`
  return html`<${Badge}
    phase=${vm.metadata.deletionTimestamp === undefined ? (vm.status?.phase ?? 'Pending') : 'Terminating'}
  />`
}

interface AbsentProps {
  readonly namespace: string
  readonly config: Config | undefined
}

function Absent({ namespace, config }: AbsentProps) {
  if (config === undefined) return html`<p class="empty">Namespace ${namespace} has no VM or config of this name.</p>`
  const { metadata, status = {} } = config
  return html`<div class="columns">
    <${State}
      facts=${[
        ['Config', metadata.name],
        ['Created', localTime(metadata.creationTimestamp)],
      ]}
      conditions=${status.conditions ?? []}
    />
    <${Events} namespace=${namespace} uid=${metadata.uid} />
  </div>`
}

interface PresentProps extends Ref {
  readonly vm: VirtualMachine
}

function Present({ vm: { metadata, spec, status = {} }, namespace, name }: PresentProps) {
  const { graphics = [], serials = [] } = spec.domain.devices ?? {}
  return html`
    ${
      status.phase === 'Running' &&
      html`<div class="reach">
          <${Screen} namespace=${namespace} name=${name} hasScreen=${graphics.length > 0} />
          <${Console} namespace=${namespace} name=${name} hasSerial=${serials.length > 0} />
        </div>
        <${Metrics} namespace=${namespace} name=${name} />`
    }
    <div class="columns">
      <${State}
        facts=${[
          ['Reason', [status.reason, status.message].filter(Boolean).join(': ')],
          ['Node', status.nodeName],
          ['Address', status.podIP],
          ['Machine', status.machine],
          ['CPUs', status.cpus],
          ['Memory', status.memory],
          ['Accelerator', spec.domain.type],
          ['Presets', status.presets],
          ['Title', spec.domain.title],
          ['Created', localTime(metadata.creationTimestamp)],
        ]}
        conditions=${status.conditions ?? []}
      />
      <${Events} namespace=${namespace} uid=${metadata.uid} />
    </div>
    <${Spec} namespace=${namespace} name=${name} uid=${metadata.uid} generation=${metadata.generation ?? 0} />
  `
}
