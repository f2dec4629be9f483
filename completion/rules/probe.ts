import type { Domain } from '../../api/domain/domain.ts'
import { protocolOf } from '../../api/port.ts'
import { probeNames } from '../../api/probe.ts'
import { agentChannel } from '../../api/guest.ts'
import { notFound, required } from './finding.ts'
import type { Rule } from './rule.ts'

const domain: Domain = { devices: { interfaces: [{ type: 'ethernet' }] } }
const ports = [{ name: 'web', port: 80 }]

export const probePort: Rule = {
  id: 'probe-port',
  description: 'The readiness, liveness and startup probes must use a TCP port of the VM.',
  *check({ spec }) {
    const served = (spec.ports ?? []).filter((one) => protocolOf(one) === 'TCP')
    for (const probe of probeNames) {
      for (const kind of ['httpGet', 'tcpSocket'] as const) {
        const port = spec[probe]?.[kind]?.port
        if (port === undefined || served.some((one) => one.name === port || one.port === port)) continue
        const known = served.map((one) => `${one.name} (${one.port})`).join(', ')
        const message = known === '' ? 'spec.ports has no TCP port' : `must be a TCP port of spec.ports: ${known}`
        yield notFound(`spec.${probe}.${kind}.port`, port, message)
      }
    }
  },
  example: {
    breaks: { domain, ports, readinessProbe: { httpGet: { port: 8080 } } },
    holds: { domain, ports, readinessProbe: { httpGet: { port: 'web' } } },
  },
}

const probe = { exec: { command: ['/usr/bin/is-ready'] } }
const channel = { type: 'unix', target: { type: 'virtio', name: agentChannel } } as const

export const probeAgent: Rule = {
  id: 'probe-agent',
  description: 'A probe by a command requires a channel for the QEMU guest agent, which runs it.',
  *check({ spec, domain: { devices = {} } }) {
    if ((devices.channels ?? []).some(({ target }) => target?.name === agentChannel && target.type === 'virtio')) return
    for (const name of probeNames) {
      if (spec[name]?.exec === undefined) continue
      const message = `requires the QEMU guest agent, to which the VM has no channel`
      const fix = `add {type: unix, target: {type: virtio, name: ${agentChannel}}} to spec.domain.devices.channels`
      yield required(`spec.${name}.exec`, message, fix)
    }
  },
  example: {
    breaks: { domain: {}, readinessProbe: probe },
    holds: { domain: { devices: { channels: [channel] } }, readinessProbe: probe },
  },
}
