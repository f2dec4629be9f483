import type { Cluster } from './cluster.ts'
import { Edit, type EditedText } from './edit.ts'
import { html } from './html.ts'
import { kindNames, type Plural, type VmPlural } from './kinds.ts'
import { textHref, vmHref } from './place.ts'
import { Explained, Presets } from './spec.ts'
import type { Read } from './text.ts'
import type { Explanation } from './tree.ts'

interface VmTextProps {
  readonly plural: VmPlural
  readonly namespace: string
  /** Empty for a new one. */
  readonly name: string
  readonly cluster: Cluster
}

const spec = `domain:
  type: qemu
  memory: {value: 256, unit: MiB}
  os: {type: {os: hvm}}
  devices:
    disks:
    - type: volume
      device: disk
      source: {volume: root}
      target: {dev: vda, bus: virtio}
    interfaces:
    - type: user
    serials:
    - {type: pty, target: {port: 0}}
volumes:
- name: root
  image: {reference: ghcr.io/virtset/linux-guest:v0.1.0, capacity: 1Gi}
`

const indented = (text: string, by: string): string => text.replaceAll(/^(?=.)/gm, by)

const vmTemplate = `template:
  metadata:
    labels: {app: web}
  spec:
${indented(spec, '    ')}`

const specs: { readonly [P in VmPlural]: string } = {
  virtualmachines: spec,
  virtualmachineconfigs: vmTemplate,
  virtualmachinegroups: `replicas: 2
selector:
  matchLabels: {app: web}
${vmTemplate}`,
}

const template = (plural: VmPlural, namespace: string): string => `apiVersion: virtset.io/v1alpha1
kind: ${kindNames[plural]}
metadata:
  name: web
  namespace: ${namespace}
spec:
${indented(specs[plural], '  ')}`

interface CompletedText extends Read {
  readonly explanation?: Explanation
  readonly presets?: Explanation['presets']
}

/** The text of a VM, config or group, and its VM as admission would complete it. */
export function VmText({ plural, namespace, name, cluster }: VmTextProps) {
  return html`<${Edit}
    plural=${plural}
    namespace=${namespace}
    name=${name}
    template=${template(plural, namespace || cluster.namespace)}
    path="/complete"
    aside=${({ read }: EditedText<CompletedText>) => html`<${Completed} read=${read} />`}
    hrefOf=${(created: Plural, of: string, called: string) =>
      created === 'virtualmachinegroups' ? textHref(created, of, called) : vmHref(of, called)}
  />`
}

const title = 'The VM that admission would store'

function Completed({ read }: { readonly read: CompletedText | undefined }) {
  if (read === undefined || read.explanation !== undefined) {
    return html`<${Explained} title=${title} explanation=${read?.explanation} />`
  }
  const { presets = [] } = read
  return html`<section class="card" aria-labelledby="spec">
    <h2 id="spec">${title}</h2>
    <p class="muted">None until the problems are corrected.</p>
    <${Presets} presets=${presets} />
  </section>`
}
