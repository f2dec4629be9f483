import { expect, test } from 'vitest'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { bundledCapabilities as capabilities } from './capabilities.ts'
import { complete } from './complete.ts'
import { objectSizeCauses } from './object-size.ts'

const vmWith = (values: readonly string[]): VirtualMachine => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'team' },
  spec: {
    domain: {
      type: 'qemu',
      memory: { unit: 'MiB', value: 64 },
      os: { type: { os: 'hvm' } },
      ...(values.length === 0
        ? {}
        : {
            sysinfos: [
              { type: 'fwcfg', entries: values.map((value, index) => ({ name: `opt/virtset/${index}`, value })) },
            ],
          }),
    },
  },
})

const bytesOf = ({ metadata, spec }: VirtualMachine): number => Buffer.byteLength(JSON.stringify({ metadata, spec }))

/** A VM of exactly this many bytes, mostly in characters of three bytes. */
const vmOf = (bytes: number): VirtualMachine => {
  const values = Array.from({ length: 15 }, () => '€'.repeat(21_845))
  const missing = bytes - bytesOf(vmWith([...values, '']))
  return vmWith([...values, 'x'.repeat(missing)])
}

const tooLarge = (value: number) => [
  {
    rule: 'object-size',
    field: 'spec',
    value,
    reason: 'FieldValueTooLong',
    message: 'must be at most 1048576 bytes of JSON including its metadata and everything that completion adds',
    suggestion: 'shorten its texts and lists, or those of the presets that select it',
  },
]

test.each([
  ['of the maximum size is accepted', 1024 * 1024, []],
  ['that is one byte larger is refused', 1024 * 1024 + 1, tooLarge(1024 * 1024 + 1)],
])('a VM %s', (_, bytes, expected) => expect(objectSizeCauses(vmOf(bytes))).toEqual(expected))

test('values that presets add count', () => {
  const preset = compilePreset({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'ClusterVirtualMachinePreset',
    metadata: { name: 'large' },
    spec: { selector: {}, domain: vmOf(1024 * 1024).spec.domain },
  })
  const outcome = complete(vmWith([]), {
    presets: createCandidates('preset' in preset ? [preset.preset] : []),
    namespace: { name: 'team', labels: {} },
    capabilities,
    entropy: { uid: 'request' },
  })
  expect(outcome.outcome === 'refused' && outcome.causes.map(({ rule, field }) => [rule, field])).toEqual([
    ['object-size', 'spec'],
  ])
})

test.each([
  ['has grown beyond the limit', 1024 * 1024, 1024 * 1024 + 1, ['metadata']],
  ['exceeds the limit, but has not grown', 1024 * 1024 + 2, 1024 * 1024 + 1, []],
  ['has grown below the limit', 1000 * 1024, 1024 * 1024, []],
])('a stored VM that %s', (_, before, after, fields) => {
  expect(objectSizeCauses(vmOf(after), vmOf(before)).map(({ field }) => field)).toEqual(fields)
})
