import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { bundledCapabilities as capabilities } from '../capabilities.ts'
import { checkRules } from './rules.ts'

const check = (domain: Domain, granted: readonly string[], defaults: readonly string[] = []) =>
  checkRules(
    { domain },
    {
      capabilities,
      originOf: (path) => (defaults.includes(path) ? { by: 'default', rule: 'a' } : { by: 'user' }),
      isGranted: (path) => granted.includes(path) || defaults.includes(path),
      isStated: (path) => granted.includes(path),
    },
  ).causes.filter(({ rule }) => rule === 'host-image-format')

const image = (type: 'raw' | 'qcow2'): Domain => ({
  devices: { disks: [{ type: 'block', driver: { type }, source: { dev: '/dev/sdx' } }] },
})
const imageFile = 'spec.domain.devices.disks[0].source.dev'
const imageFormat = 'spec.domain.devices.disks[0].driver.type'
const backed = (type: 'vmdk'): Domain => ({
  devices: {
    disks: [
      {
        type: 'block',
        source: { dev: '/dev/sdx' },
        backingStore: { type: 'file', format: { type }, source: { file: '/below' } },
      },
    ],
  },
})
const belowFile = 'spec.domain.devices.disks[0].backingStore.source.file'

const loader = (format: 'raw' | 'qcow2'): Domain => ({ os: { loader: { value: '/code.fd', format } } })
const loaderFile = 'spec.domain.os.loader.value'
const loaderFormat = 'spec.domain.os.loader.format'
const store = (format: 'raw' | 'qcow2'): Domain => ({ os: { nvram: { value: '/vars.fd', format } } })
const storeFile = 'spec.domain.os.nvram.value'
const storeFormat = 'spec.domain.os.nvram.format'

test.each<[string, Domain, string[], string[]]>([
  ['a granted image is opened as a raw one', image('raw'), [imageFile], []],
  ['in another format it is refused', image('qcow2'), [imageFile], [imageFormat]],
  ['in a format that is granted as well it is not', image('qcow2'), [imageFile, imageFormat], []],
  [
    'an image below a granted one is refused in another format',
    backed('vmdk'),
    [imageFile, belowFile],
    ['spec.domain.devices.disks[0].backingStore.format.type'],
  ],
  [
    'an image in the pod is opened in any format',
    { devices: { disks: [{ type: 'volume', driver: { type: 'qcow2' }, source: { volume: 'v' } }] } },
    [],
    [],
  ],
  ['a firmware is refused in another format', loader('qcow2'), [loaderFile], [loaderFormat]],
  ['a variable store is refused in another format', store('qcow2'), [storeFile], [storeFormat]],
  [
    'a data file is refused in another format',
    {
      devices: {
        disks: [
          {
            type: 'file',
            source: { file: '/a', dataStore: { type: 'file', format: { type: 'qcow2' }, source: { file: '/b' } } },
          },
        ],
      },
    },
    ['spec.domain.devices.disks[0].source.dataStore.source.file'],
    ['spec.domain.devices.disks[0].source.dataStore.format.type'],
  ],
])('%s', (_, domain, granted, fields) => {
  expect(check(domain, granted).map(({ field }) => field)).toEqual(fields)
})

const chain: Domain = {
  devices: {
    disks: [
      {},
      {
        type: 'file',
        driver: { type: 'qcow2' },
        source: {
          file: '/a',
          dataStore: {
            format: { type: 'raw' },
            source: { file: '/b', dataStore: { format: { type: 'qcow2' }, source: { file: '/c' } } },
          },
        },
        backingStore: {
          format: { type: 'qcow2' },
          source: { file: '/d' },
          backingStore: {
            format: { type: 'vmdk' },
            source: { file: '/e', dataStore: { format: { type: 'qed' }, source: { file: '/f' } } },
          },
        },
      },
    ],
  },
}
const inChain = 'spec.domain.devices.disks[1]'

test.each<[string, string, string]>([
  ['the image of a disk', 'source.file', 'driver.type'],
  [
    'a data file of a data file',
    'source.dataStore.source.dataStore.source.file',
    'source.dataStore.source.dataStore.format.type',
  ],
  ['a backing image', 'backingStore.source.file', 'backingStore.format.type'],
  [
    'a backing image of a backing image',
    'backingStore.backingStore.source.file',
    'backingStore.backingStore.format.type',
  ],
  [
    'a data file of a backing image',
    'backingStore.backingStore.source.dataStore.source.file',
    'backingStore.backingStore.source.dataStore.format.type',
  ],
])('of a chain of images, %s is refused in another format if it is granted', (_, file, format) => {
  expect(check(chain, [`${inChain}.${file}`]).map(({ field }) => field)).toContain(`${inChain}.${format}`)
  expect(check(chain, [`${inChain}.${file}`, `${inChain}.${format}`]).map(({ field }) => field)).not.toContain(
    `${inChain}.${format}`,
  )
})

const template: Domain = { os: { nvram: { template: '/vars.fd', templateFormat: 'qcow2' } } }

test('the template of a variable store is refused in another format, unless that is granted', () => {
  const [file, format] = ['spec.domain.os.nvram.template', 'spec.domain.os.nvram.templateFormat']
  expect(check(template, [file])).toEqual([
    {
      rule: 'host-image-format',
      origin: { by: 'user' },
      field: format,
      value: 'qcow2',
      reason: 'FieldValueForbidden',
      message: 'the image reaches the host, and only a ClusterVirtualMachinePreset can set a format other than raw',
      suggestion: 'ask an operator to set it in the ClusterVirtualMachinePreset that injects the image',
    },
  ])
  expect(check(template, [file, format])).toEqual([])
})

test.each<[string, Domain, string[], string[], string[]]>([
  ['a default firmware has any format', loader('qcow2'), [], [loaderFile, loaderFormat], []],
  ['a granted firmware has the format of its descriptor', loader('qcow2'), [loaderFile], [loaderFormat], []],
  ['a granted store has no default format but raw', store('qcow2'), [storeFile], [storeFormat], [storeFormat]],
])('%s', (_, domain, granted, defaults, fields) => {
  expect(check(domain, granted, defaults).map(({ field }) => field)).toEqual(fields)
})
