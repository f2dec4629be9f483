import type { Domain } from '../../api/domain/domain.ts'
import { longestChannelName } from '../../api/launcher-directory.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, notFound, required, tooMany, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Channel = DeviceOf<'channels'>

/** The fields that all character devices share. */
interface Character {
  readonly type?: Channel['type']
  readonly source?: Channel['source']
  readonly sources?: Channel['sources']
  readonly protocol?: Channel['protocol']
}

interface PlacedCharacter {
  readonly at: string
  readonly device: Character
  /** libvirt creates a socket for it when no path is set. */
  readonly hasOwnSocket: boolean
}

const charactersOf = (domain: Domain): readonly PlacedCharacter[] => {
  const found: PlacedCharacter[] = []
  for (const key of ['serials', 'parallels', 'consoles', 'channels', 'redirdevs', 'smartcards'] as const) {
    for (const [index, device] of list(domain, key).entries()) {
      const hasOwnSocket = key === 'channels' && list(domain, 'channels')[index]?.target?.type === 'virtio'
      found.push({ at: `spec.domain.devices.${key}[${index}]`, device, hasOwnSocket })
    }
  }
  for (const [index, { backend }] of list(domain, 'rngs').entries()) {
    if (backend?.model === 'egd')
      found.push({ at: `spec.domain.devices.rngs[${index}].backend`, device: backend, hasOwnSocket: false })
  }
  return found
}

const endsOf = ({ source, sources }: Character): NonNullable<Character['sources']> =>
  sources ?? (source ? [source] : [])

const serial = (more: DeviceOf<'serials'>): Domain => ({ devices: { serials: [more] } })

const characterSource: Rule = {
  id: 'character-source',
  description:
    'A character device must name its other end as its type requires: a path, a server and port, or a channel.',
  about: ['serials', 'parallels', 'consoles', 'channels', 'redirdevs', 'smartcards', 'rngs'],
  *check({ domain }) {
    for (const { at, device, hasOwnSocket } of charactersOf(domain))
      yield* sourceFaults(device, at, hasOwnSocket, at.includes('.redirdevs['))
  },
  example: example(serial({ type: 'file' }), serial({ type: 'file', source: { path: '/log' } })),
}

function* sourceFaults(device: Character, at: string, hasOwnSocket: boolean, isRedirected: boolean): Iterable<Finding> {
  const { type } = device
  const ends = endsOf(device)
  const has = (key: 'path' | 'host' | 'service' | 'channel'): boolean =>
    ends.some((end) => end[key] !== undefined && end[key] !== '')
  const demand = (key: 'path' | 'host' | 'service' | 'channel'): Finding[] =>
    has(key) ? [] : [required(`${at}.source.${key}`, `must be set for type ${type}`)]
  if (ends.length > (type === 'udp' ? 2 : 1))
    yield tooMany(`${at}.sources`, ends.length, `must have at most ${type === 'udp' ? 2 : 1} for type ${type}`)
  switch (type) {
    case 'file':
    case 'pipe':
    case 'dev':
      yield* demand('path')
      break
    case 'unix':
      if (!hasOwnSocket) yield* demand('path')
      break
    case 'tcp':
      yield* demand('host')
      yield* demand('service')
      break
    case 'udp':
      if (ends.some(({ mode, service }) => mode !== 'bind' && service !== undefined)) break
      yield required(`${at}.source.service`, 'must be set for type udp, with mode connect: the port of the other end')
      break
    case 'spiceport':
      yield* demand('channel')
      break
    case 'dbus':
      if (!isRedirected) yield* demand('channel')
      break
    default:
  }
}

const characterReconnect: Rule = {
  id: 'character-reconnect',
  description:
    'A character device that connects can reconnect, after at least one second. A disk that reconnects must set the timeout.',
  about: ['reconnect'],
  *check({ domain }) {
    for (const { at, device } of charactersOf(domain)) {
      const [source] = endsOf(device)
      if (!source?.reconnect) continue
      if (source.mode === 'bind')
        yield forbidden(`${at}.source.reconnect`, undefined, 'can only be set for mode connect')
      if (source.reconnect.enabled !== true) continue
      if (source.reconnect.timeout === undefined)
        yield required(`${at}.source.reconnect.timeout`, 'must be set when reconnect is enabled: seconds')
      if (numberOf(source.reconnect.timeout) === 0)
        yield invalid(`${at}.source.reconnect.timeout`, 0, 'must be at least 1 second')
    }
    for (const [index, { source }] of list(domain, 'disks').entries()) {
      if (source?.reconnect?.enabled !== true || source.reconnect.timeout !== undefined) continue
      const field = `spec.domain.devices.disks[${index}].source.reconnect.timeout`
      yield required(field, 'must be set when reconnect is enabled: seconds')
    }
  },
  example: example(
    serial({
      type: 'tcp',
      source: { mode: 'connect', host: 'h', service: '1', reconnect: { enabled: true, timeout: 0 } },
    }),
    serial({
      type: 'tcp',
      source: { mode: 'connect', host: 'h', service: '1', reconnect: { enabled: true, timeout: 1 } },
    }),
  ),
}

const characterProtocol: Rule = {
  id: 'character-protocol',
  description: 'The protocol of a TCP character device must be raw or telnet.',
  about: ['protocol'],
  *check({ domain }) {
    for (const { at, device } of charactersOf(domain)) {
      const protocol = device.type === 'tcp' ? device.protocol?.type : undefined
      if (protocol === undefined || protocol === 'raw' || protocol === 'telnet') continue
      yield unsupported(`${at}.protocol.type`, protocol, 'must be raw or telnet', 'for TLS: raw, with source.tls: true')
    }
  },
  example: example(
    serial({ type: 'tcp', source: { mode: 'bind', host: 'h', service: '1' }, protocol: { type: 'telnets' } }),
    serial({ type: 'tcp', source: { mode: 'bind', host: 'h', service: '1' }, protocol: { type: 'telnet' } }),
  ),
}

const channelTarget = eachDevice('channels')(
  'channel-target',
  'A channel must have a target: a virtio port, or the address and port that the guest connects to.',
  ({ type, target }, at) => {
    const findings: Finding[] = []
    if (target?.type === undefined) findings.push(required(`${at}.target.type`, 'must be set: virtio or guestfwd'))
    if (target?.type === 'guestfwd') {
      for (const key of ['address', 'port'] as const) {
        if (target[key] === undefined)
          findings.push(required(`${at}.target.${key}`, 'must be set for target type guestfwd'))
      }
    }
    if (target?.address?.includes(':') === true)
      findings.push(invalid(`${at}.target.address`, target.address, 'must be an IPv4 address'))
    if (type !== 'spicevmc') return findings
    if (target?.type === 'guestfwd')
      findings.push(invalid(`${at}.target.type`, 'guestfwd', `must be virtio for type ${type}`))
    return findings
  },
  example(
    { devices: { channels: [{ type: 'pty', target: { type: 'guestfwd', port: 80 } }] } },
    { devices: { channels: [{ type: 'pty', target: { type: 'guestfwd', port: 80, address: '10.0.2.1' } }] } },
  ),
)

const channelSocket: Rule = {
  id: 'channel-socket',
  description: 'The name of a channel must leave the path of its socket in the pod within 107 bytes.',
  about: ['channels'],
  *check({ domain }) {
    const most = longestChannelName(domain.name)
    for (const [index, channel] of list(domain, 'channels').entries()) {
      const { name } = channel.target ?? {}
      const [end] = endsOf(channel)
      if (channel.type !== 'unix' || end?.path !== undefined || name === undefined || Buffer.byteLength(name) <= most)
        continue
      const message = `must be at most ${most} bytes: it is part of the path of a socket`
      yield invalid(`spec.domain.devices.channels[${index}].target.name`, name, message)
    }
  },
  example: example(
    { devices: { channels: [{ type: 'unix', target: { type: 'virtio', name: 'a'.repeat(64) } }] } },
    { devices: { channels: [{ type: 'pty', target: { type: 'virtio', name: 'a'.repeat(64) } }] } },
  ),
}

const defaultPorts = 31

const virtioSerialPort: Rule = {
  id: 'virtio-serial-port',
  description: 'Each channel and console on virtio-serial must have its own port, within those of its controller.',
  about: ['channels', 'consoles'],
  *check({ domain }) {
    const controllers = new Map<number, number>()
    for (const { type, index, ports } of list(domain, 'controllers')) {
      if (type === 'virtio-serial') controllers.set(numberOf(index) ?? 0, numberOf(ports) ?? defaultPorts)
    }
    const taken = new Map<string, string>()
    for (const key of ['channels', 'consoles'] as const) {
      for (const [index, { address }] of list(domain, key).entries()) {
        if (address?.type !== 'virtio-serial') continue
        const at = `spec.domain.devices.${key}[${index}].address`
        const controller = numberOf(address.controller) ?? 0
        const port = numberOf(address.port) ?? 0
        const ports = controllers.get(controller)
        if (ports === undefined)
          yield notFound(`${at}.controller`, controller, 'no virtio-serial controller has this index')
        else if (port >= ports)
          yield invalid(`${at}.port`, address.port, `must be less than ${ports}, the ports of controller ${controller}`)
        else if (key === 'consoles' && port === 0 && !controllers.has(0))
          yield invalid(`${at}.port`, address.port, 'must be at least 1 when no virtio-serial controller has index 0')
        const name = `${controller}:${port}`
        const other = taken.get(name)
        if (other !== undefined) yield duplicate(`${at}.port`, address.port, `is already the port of ${other}`)
        else taken.set(name, at)
      }
    }
  },
  example: example(
    {
      devices: {
        channels: ['1', '1'].map((port, index) => ({
          type: 'unix' as const,
          target: { type: 'virtio' as const, name: `org.example.${index}` },
          address: { type: 'virtio-serial' as const, port },
        })),
      },
    },
    {
      devices: {
        channels: ['1', '2'].map((port, index) => ({
          type: 'unix' as const,
          target: { type: 'virtio' as const, name: `org.example.${index}` },
          address: { type: 'virtio-serial' as const, port },
        })),
      },
    },
  ),
}

export const characterRules: readonly Rule[] = [
  characterSource,
  characterReconnect,
  characterProtocol,
  channelTarget,
  channelSocket,
  virtioSerialPort,
]
