import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { parseManifest } from '../../api/yaml.ts'
import { isRecord } from '../../api/schema.ts'
import type { Manifest } from '../../inventory/manifests.ts'
import { moduleFolder } from '../kinds/modules.ts'

const version = 'v1.6.0'

/** The source of KubeVirt, from Go's cache of modules; downloads 9 MB once. */
export const kubevirtModule = (): string => moduleFolder('kubevirt.io/kubevirt', version)

/** The kinds of its examples, and the plural of each. */
const kinds = {
  VirtualMachine: 'virtualmachines',
  VirtualMachineInstance: 'virtualmachineinstances',
  VirtualMachineInstanceReplicaSet: 'virtualmachineinstancereplicasets',
  VirtualMachineInstanceMigration: 'virtualmachineinstancemigrations',
  VirtualMachineInstancePreset: 'virtualmachineinstancepresets',
} as const

export type KubevirtKind = keyof typeof kinds

/** Its CRDs, which its operator assembles from texts of YAML in a file of Go. */
export function kubevirtCrds(directory: string): readonly object[] {
  const file = 'pkg/virt-operator/resource/generate/components/validations_generated.go'
  const source = readFileSync(join(directory, file), 'utf8')
  const texts = new Map([...source.matchAll(/^\t"([a-z]+)": `([^`]*)`/gm)].map(([, name, text]) => [name, text ?? '']))
  return Object.entries(kinds).map(([kind, plural]) => {
    const schema = parse(texts.get(kind.toLowerCase()) ?? '')
    if (!isRecord(schema)) throw new Error(`${file} has no schema of ${kind}`)
    return {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `${plural}.kubevirt.io` },
      spec: {
        group: 'kubevirt.io',
        scope: 'Namespaced',
        names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
        versions: [{ name: 'v1', served: true, storage: true, schema }],
      },
    }
  })
}

export const pluralOf = (kind: KubevirtKind): string => kinds[kind]

/** The objects of some kinds in its examples, each with the name of its file. */
export function kubevirtExamples(directory: string, wanted: readonly KubevirtKind[]) {
  const folder = join(directory, 'examples')
  return readdirSync(folder).flatMap((file) => {
    const read = parseManifest(readFileSync(join(folder, file), 'utf8'))
    const objects = 'values' in read ? read.values.filter((value): value is Manifest => isRecord(value)) : []
    return objects.flatMap((object) => {
      const kind = wanted.find((one) => one === object['kind'] && object['apiVersion'] === 'kubevirt.io/v1')
      return kind === undefined ? [] : [{ file, kind, object }]
    })
  })
}
