import { expect, test } from 'vitest'
import { noNodes } from '../completion/nodes.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import type { Clock } from '../runtime/clock.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { createImpact } from './impact.ts'
import { pack } from './machines.ts'

const vm = (name: string, app: string, namespace = 'shop') =>
  pack({
    metadata: { name, namespace, uid: name, resourceVersion: '1', labels: { app } },
    spec: { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } },
  })

const preset = (name: string, spec: object, namespace = 'shop') => {
  const compiled = compilePreset({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachinePreset',
    metadata: { name, namespace },
    spec: { selector: { matchLabels: { app: 'web' } }, ...spec },
  })
  if ('quarantined' in compiled) throw new Error(JSON.stringify(compiled.quarantined.causes))
  return compiled.preset
}

const machines = [vm('a', 'web'), vm('b', 'web'), vm('c', 'db'), vm('d', 'web', 'other')]
const impactOf = (
  known = machines,
  presets = [preset('old', { domain: { vcpu: { value: 2 } } })],
  clock: Clock = fakeClock(),
) =>
  createImpact({
    machines: { list: () => known, withMac: () => [] },
    candidates: createCandidates(presets),
    capabilities: () => noNodes,
    namespace: (name) => ({ name, labels: {} }),
    clock,
  })

const changed = ['would have changed 2 of the 4 VMs that there are; they stay as they are']

test.each<[string, Parameters<typeof preset>, readonly string[]]>([
  ['that changes what it selects in its namespace', ['new', { domain: { title: 't' } }], changed],
  ['that is written anew with another value', ['old', { domain: { vcpu: { value: 3 } } }], changed],
  ['that only warns is taken as if it were applied', ['new', { mode: 'Warn', domain: { title: 't' } }], changed],
  ['that says what another says', ['new', { domain: { vcpu: { value: 2 } } }], []],
  ['that selects nothing', ['new', { domain: { title: 't' } }, 'empty'], []],
  [
    'that disagrees with another',
    ['new', { domain: { vcpu: { value: 4 } } }],
    ['would have refused 2 of the 4 VMs that there are; they stay as they are'],
  ],
])('a preset %s', async (_, given, told) => expect(await impactOf()(preset(...given))).toEqual(told))

/** Time goes on by so much whenever it is asked for. */
const running = (stepMs: number): Clock => {
  let nowMs = 0
  return { ...fakeClock(), monotonic: () => (nowMs += stepMs) }
}

test('after a while its author is told of what was looked at', async () => {
  const many = Array.from({ length: 50 }, (_, index) => vm(`vm-${index}`, 'web'))
  const told = await impactOf(many, [], running(10))(preset('new', { domain: { title: 't' } }))
  expect(told).toEqual([
    expect.stringMatching(/^would have changed at least (\d+) of the \1 looked at of 50 VMs; they stay as they are$/),
  ])
  const none = await impactOf(many, [], running(10))(preset('new', { domain: { title: 't' } }, 'empty'))
  expect(none).toEqual([expect.stringMatching(/^none of \d+ VMs looked at would have changed; there are 50$/)])
  expect([...told, ...none].filter((line) => line.length >= 120)).toEqual([])
})

test('other work goes on meanwhile, and presets take their turns', async () => {
  const many = Array.from({ length: 60 }, (_, index) => vm(`vm-${index}`, 'web'))
  const order: string[] = []
  const impact = impactOf(many, [], running(5))
  const both = ['first', 'second'].map(async (name) => {
    await impact(preset(name, { domain: { title: name } }))
    order.push(name)
  })
  setImmediate(() => order.push('other work'))
  await Promise.all(both)
  expect(order).toEqual(['other work', 'first', 'second'])
})
