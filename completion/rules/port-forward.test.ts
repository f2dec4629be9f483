import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { prepare, testRule, testSilent } from '../../test/rule-table.ts'
import { portForwardRules } from './port-forward.ts'

type Interface = NonNullable<NonNullable<Domain['devices']>['interfaces']>[number]

const passt = (portForwards: Interface['portForwards']): Interface => ({
  type: 'user',
  backend: { type: 'passt' },
  ...(portForwards === undefined ? {} : { portForwards }),
})
const vm = (...interfaces: Interface[]): Domain => ({ devices: { interfaces } })
const at = 'spec.domain.devices.interfaces'

testRule('port-forward-bounded', [
  {
    refused: vm(passt([{ proto: 'tcp' }, { proto: 'udp', ranges: [{ start: 53, exclude: true }] }])),
    causes: [0, 1].map(
      (index) =>
        `${at}[0].portForwards[${index}].ranges: Required value: must name the ports: to listen on all would take 300 MiB and more files than a container may open; e.g. ranges: [{start: 8080}], or spec.ports instead`,
    ),
    accepted: vm(passt([{ proto: 'tcp', ranges: [{ start: 80 }] }])),
  },
  {
    refused: vm(passt([{ proto: 'tcp', ranges: [{ start: 1, end: 4096 }, { start: 5000 }, { start: 5001 }] }])),
    causes: [
      `${at}[0].portForwards[0].ranges[1].start: Invalid value: 5000: forwards too many ports: with those before it, 4097; at most 4096 are supported`,
    ],
    accepted: vm(passt([{ proto: 'tcp', ranges: [{ start: 1, end: 4096 }] }])),
  },
])

testRule('port-forward-range', [
  {
    refused: vm(
      passt([
        {
          proto: 'tcp',
          ranges: [
            { start: 90, end: 80 },
            { start: 9, end: 8, exclude: true },
            { start: 100, end: 109, to: 65_530 },
          ],
        },
      ]),
    ),
    causes: [
      `${at}[0].portForwards[0].ranges[0].end: Invalid value: 80: must not be less than start, which is 90`,
      `${at}[0].portForwards[0].ranges[1].end: Invalid value: 8: must not be less than start, which is 9`,
      `${at}[0].portForwards[0].ranges[2].to: Invalid value: 65530: must be at most 65526: the range has 10 ports`,
    ],
    accepted: vm(
      passt([
        {
          proto: 'tcp',
          ranges: [
            { start: 80, end: 80 },
            { start: 100, end: 109, to: 65_526 },
          ],
        },
      ]),
    ),
  },
])

testRule('port-forward-unique', [
  {
    refused: vm(passt([{ proto: 'tcp', ranges: [{ start: 80, end: 90 }, { start: 82 }, { start: 85, to: 1 }] }])),
    causes: [1, 2].map(
      (index) =>
        `${at}[0].portForwards[0].ranges[${index}].start: Duplicate value: ${index === 1 ? 82 : 85}: ${at}[0].portForwards[0].ranges[0].start already forwards this port`,
    ),
    accepted: vm(passt([{ proto: 'tcp', ranges: [{ start: 80, end: 90 }, { start: 91 }] }])),
  },
  {
    refused: vm(
      passt([{ proto: 'udp', address: '10.0.0.1', ranges: [{ start: 53 }] }]),
      passt([{ proto: 'udp', ranges: [{ start: 53 }] }]),
    ),
    causes: [
      `${at}[1].portForwards[0].ranges[0].start: Duplicate value: 53: ${at}[0].portForwards[0].ranges[0].start already forwards this port`,
    ],
    accepted: vm(
      passt([{ proto: 'udp', address: '10.0.0.1', ranges: [{ start: 53 }] }]),
      passt([{ proto: 'tcp', ranges: [{ start: 53 }] }]),
    ),
  },
])

const ports = [{ name: 'web', port: 80 }]

testRule('port-reach', [
  {
    ports,
    refused: vm({ type: 'user' }),
    causes: [
      'spec.ports: Forbidden: must not be set: the VM has no interface through which clients reach its guest; e.g. spec.domain.devices.interfaces: [{type: user}]',
    ],
    accepted: vm(passt([{ proto: 'tcp', ranges: [{ start: 80 }] }])),
  },
])

testSilent('port-reach', [vm({ type: 'ethernet' })], { ports })
testSilent('port-reach', [{}, vm({ type: 'user' })])

test('ranges within each other are compared in a time that is linear in their number', () => {
  const count = 50_000
  const ranges = Array.from({ length: count }, (_, index) => ({ start: index, end: count + index }))
  const [spec, context] = prepare(vm(passt([{ proto: 'tcp', ranges }])))
  const rule = portForwardRules.find(({ id }) => id === 'port-forward-unique')
  const since = process.cpuUsage()
  const found = [...(rule?.check({ spec, domain: spec.domain, ...context }) ?? [])]
  const { user, system } = process.cpuUsage(since)
  expect(found).toHaveLength(count - 1)
  // A tenth of a second without other load. To compare each with all before it takes half a minute.
  expect((user + system) / 1e6).toBeLessThan(5)
})
