import { expect, test } from 'vitest'
import type { Capabilities } from '../api/capabilities.ts'
import type { Cause } from '../api/cause.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import { bundledCapabilities } from './capabilities.ts'
import { nameNodes } from './node-causes.ts'

const missing: Cause = {
  rule: 'os-type',
  field: 'spec.domain.os.type.machine',
  reason: 'FieldValueNotSupported',
  message: 'there is no such machine type',
  missingCapability: 'machine type pc',
}
const hardware: Cause = { ...missing, missingCapability: 'CPU feature svm', hardware: 'unlabeled' }

/** Kinds with these numbers of nodes. */
const kinds = (...counts: readonly number[]) =>
  counts.map((count, kind) => ({
    capabilities: { ...bundledCapabilities, version: String(kind) },
    nodes: Array.from({ length: count }, (_, index) => `${kind}-${index}`),
  }))

/** Is checked on two kinds of nodes. */
const large: VirtualMachineSpec = {
  domain: {},
  tolerations: Array.from({ length: 33_000 }, () => ({ key: 'a', operator: 'Exists' as const })),
}

const named = (cause: Cause, counts: readonly number[], lacking: readonly string[], spec = large) => {
  const checked: string[] = []
  const check = ({ version }: Capabilities) => {
    checked.push(version)
    return lacking.includes(version) ? [cause] : []
  }
  const { causes, warnings } = nameNodes([cause], { groups: kinds(...counts), outliers: [] }, spec, check)
  return { checked, lines: [...causes.map(({ message }) => message), ...warnings] }
}

test.each<[string, Parameters<typeof named>, ReturnType<typeof named>]>([
  [
    'some have it',
    [missing, [1, 3, 2], ['1']],
    {
      checked: ['1', '2'],
      lines: [
        'nodes 1-0, 1-1, 1-2 do not have machine type pc; nodes 2-0, 2-1 have it; 1 more was not checked, because the VM is large',
      ],
    },
  ],
  [
    'none has it',
    [missing, [1, 3, 2], ['1', '2']],
    {
      checked: ['1', '2'],
      lines: [
        'there is no such machine type (nodes 1-0, 1-1, 1-2 and 2 more do not have machine type pc; 1 more was not checked, because the VM is large)',
      ],
    },
  ],
  [
    'few do not have it or are not checked, which the VM then avoids',
    [missing, [1, 19, 1], ['0']],
    {
      checked: ['1', '0'],
      lines: [
        'os.type.machine: node 0-0 does not have machine type pc; 1 more was not checked, because the VM is large: the VM will not run there',
      ],
    },
  ],
  [
    'hardware',
    [hardware, [1, 3, 2], ['1', '2']],
    {
      checked: ['1', '2'],
      lines: [
        'nodes 1-0, 1-1, 1-2 and 2 more do not have CPU feature svm; 1 more was not checked, because the VM is large',
      ],
    },
  ],
  [
    'a VM of usual size is checked on all',
    [missing, [1, 3, 2], ['1'], { domain: {} }],
    {
      checked: ['0', '1', '2'],
      lines: ['nodes 1-0, 1-1, 1-2 do not have machine type pc; nodes 0-0, 2-0, 2-1 have it'],
    },
  ],
])('the nodes of a large VM: %s', (_, given, expected) => {
  expect(named(...given)).toEqual(expected)
})
