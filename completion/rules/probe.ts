import type { Domain } from '../../api/domain/domain.ts'
import { protocolOf } from '../../api/port.ts'
import { probeNames } from '../../api/probe.ts'
import { notFound } from './finding.ts'
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
