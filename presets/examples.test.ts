import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { team, vmWith } from '../test/presets/make.ts'
import { createCandidates } from './candidates.ts'
import { compilePreset } from './compile.ts'
import { inject } from './inject.ts'

const folder = new URL('../manifests/examples/presets/', import.meta.url)

const read = (file: string) =>
  parseAllDocuments(readFileSync(new URL(file, folder), 'utf8')).map((document) => {
    const value = document.toJS()
    const isNamespaced = value.kind === 'VirtualMachinePreset'
    return compilePreset({ ...value, metadata: { ...value.metadata, ...(isNamespaced ? { namespace: 'team' } : {}) } })
  })

const disk = { type: 'file', source: { file: '/x' }, target: { dev: 'vda' } }

interface Example {
  readonly file: string
  readonly labels?: { readonly [key: string]: string }
  readonly user: { readonly [key: string]: unknown }
  readonly spec: unknown
}

const examples: readonly Example[] = [
  {
    file: 'sizes.yaml',
    labels: { size: 'large' },
    user: { type: 'kvm', memory: { unit: 'GiB', value: 16 } },
    spec: {
      domain: {
        type: 'kvm',
        memory: { unit: 'GiB', value: 16 },
        vcpu: { value: 4 },
        cpu: { topology: { sockets: 1, cores: 4, threads: 1 } },
      },
    },
  },
  {
    file: 'cloud-init.yaml',
    labels: { setup: 'cloud-init' },
    user: { devices: { disks: [disk] } },
    spec: {
      domain: {
        devices: {
          disks: [
            disk,
            {
              type: 'volume',
              device: 'disk',
              source: { volume: 'cloud-init' },
              target: { dev: 'vdz', bus: 'virtio' },
              readonly: {},
            },
          ],
        },
      },
      volumes: [{ name: 'cloud-init', cloudInit: { userData: '#cloud-config\nssh_import_id: [gh:example]\n' } }],
    },
  },
  {
    file: 'video.yaml',
    user: { type: 'kvm' },
    spec: { domain: { type: 'kvm', devices: { videos: [{ model: { type: 'virtio', heads: 1, primary: true } }] } } },
  },
  {
    file: 'disk-cache.yaml',
    user: { devices: { disks: [{ ...disk, driver: { cache: 'unsafe', io: 'threads' } }] } },
    spec: { domain: { devices: { disks: [{ ...disk, driver: { cache: 'none', io: 'threads' } }] } } },
  },
  {
    file: 'bridge.yaml',
    labels: { network: 'bridge' },
    user: {},
    spec: {
      domain: {
        devices: {
          interfaces: [
            { type: 'bridge', source: { bridge: 'br0' }, model: { type: 'virtio' }, alias: { name: 'ua-bridge' } },
          ],
        },
      },
    },
  },
  {
    file: 'no-tpm.yaml',
    user: { type: 'kvm', devices: { tpms: [{ model: 'tpm-tis' }] } },
    spec: { domain: { type: 'kvm' } },
  },
]

test.each(examples)('$file does what it describes', ({ file, labels = {}, user, spec }) => {
  const compiled = read(file)
  expect(compiled.flatMap((one) => ('quarantined' in one ? one.quarantined.causes : []))).toEqual([])
  const presets = createCandidates(compiled.flatMap((one) => ('preset' in one ? [one.preset] : [])))
  const namespace = { name: team.name, labels: { ...team.labels, 'example.org/bridge': 'allowed' } }
  const { vm, causes } = inject(vmWith(user, { labels }), { presets, namespace })
  expect(causes).toEqual([])
  expect(vm.spec).toEqual(spec)
})

test('every example has a test', () => {
  expect(readdirSync(folder).toSorted()).toEqual(examples.map(({ file }) => file).toSorted())
})
