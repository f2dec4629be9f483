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

test.each<[string, Domain, string[], string[], string[]]>([
  ['a default firmware has any format', loader('qcow2'), [], [loaderFile, loaderFormat], []],
  ['a granted firmware has the format of its descriptor', loader('qcow2'), [loaderFile], [loaderFormat], []],
  ['a granted store has no default format but raw', store('qcow2'), [storeFile], [storeFormat], [storeFormat]],
])('%s', (_, domain, granted, defaults, fields) => {
  expect(check(domain, granted, defaults).map(({ field }) => field)).toEqual(fields)
})
