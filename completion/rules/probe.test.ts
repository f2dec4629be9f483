import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import type { Probes } from '../../api/probe.ts'
import { renderCause } from '../../api/refusal.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { prepare } from '../../test/rule-table.ts'
import { checkRules } from './rules.ts'

const ports: VirtualMachineSpec['ports'] = [
  { name: 'web', port: 80 },
  { name: 'dns', port: 53, protocol: 'UDP' },
]
const unknown = 'must be a TCP port of spec.ports: web (80)'

test.each<[string, Pick<VirtualMachineSpec, 'ports' | keyof Probes>, readonly string[]]>([
  ['no probe', { ports }, []],
  ['the name of a port', { ports, readinessProbe: { httpGet: { port: 'web' } } }, []],
  ['the number of a port', { ports, readinessProbe: { tcpSocket: { port: 80 } } }, []],
  [
    'the name of a UDP port',
    { ports, readinessProbe: { httpGet: { port: 'dns' } } },
    [`spec.readinessProbe.httpGet.port: Not found: "dns": ${unknown}`],
  ],
  [
    'an undeclared port',
    { ports, readinessProbe: { tcpSocket: { port: 81 } } },
    [`spec.readinessProbe.tcpSocket.port: Not found: 81: ${unknown}`],
  ],
  [
    'an undeclared port for startup',
    { ports, startupProbe: { httpGet: { port: 81 } } },
    [`spec.startupProbe.httpGet.port: Not found: 81: ${unknown}`],
  ],
  [
    'an undeclared port for liveness',
    { ports, livenessProbe: { httpGet: { port: 81 } } },
    [`spec.livenessProbe.httpGet.port: Not found: 81: ${unknown}`],
  ],
  [
    'no port to name',
    { readinessProbe: { httpGet: { port: 'web' } } },
    ['spec.readinessProbe.httpGet.port: Not found: "web": spec.ports has no TCP port'],
  ],
])('a probe with %s', (_, row, causes) => {
  const found = checkRules(...prepare({ devices: { interfaces: [{ type: 'ethernet' }] } }, row)).causes
  const own = found.filter(({ rule }) => rule === 'probe-port')
  expect(own.map((cause) => `${cause.field}: ${renderCause(cause)}`)).toEqual(causes)
})

const noChannel =
  'spec.startupProbe.exec: Required value: requires the QEMU guest agent, to which the VM has no channel; add {type: unix, target: {type: virtio, name: org.qemu.guest_agent.0}} to spec.domain.devices.channels'
const withChannel = (name: string): Domain => ({
  devices: { channels: [{ type: 'unix', target: { type: 'virtio', name } }] },
})

test.each<[string, Domain, readonly string[]]>([
  ['no channel', {}, [noChannel]],
  ['another channel', withChannel('a'), [noChannel]],
  ['a channel for the agent', withChannel('org.qemu.guest_agent.0'), []],
])('a probe by a command with %s', (_, domain, causes) => {
  const found = checkRules(...prepare(domain, { startupProbe: { exec: { command: ['true'] } } })).causes
  const own = found.filter(({ rule }) => rule === 'probe-agent')
  expect(own.map((cause) => `${cause.field}: ${renderCause(cause)}`)).toEqual(causes)
})
