import type { Domain } from '../../api/domain/domain.ts'
import { eachDevice, type DeviceOf } from './device.ts'
import { forbidden, forbidEach, invalid, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Source = NonNullable<DeviceOf<'disks'>['source']>

const host = { name: 'example.org' }

const disk = (source: Source): Domain => ({
  devices: { disks: [{ type: 'network', source, target: { dev: 'vda' } }] },
})

const reading = ['readahead', 'timeout']

/** The options of each protocol besides name and servers. */
const optionsOf: { readonly [protocol: string]: readonly string[] } = {
  nbd: ['tls', 'tlsHostname', 'reconnect'],
  rbd: ['snapshot', 'config'],
  gluster: [],
  iscsi: ['initiator'],
  http: ['cookies', 'query', ...reading],
  https: ['cookies', 'query', 'ssl', ...reading],
  ftp: reading,
  ftps: ['ssl', ...reading],
  ssh: ['knownHosts', 'identity', ...reading],
  nfs: ['identity'],
}

const options = [...new Set(Object.values(optionsOf).flat())]

/** The options that each protocol does not have. */
const othersOf: { readonly [protocol: string]: readonly string[] } = Object.fromEntries(
  Object.entries(optionsOf).map(([protocol, known]) => [protocol, options.filter((key) => !known.includes(key))]),
)

/** Protocols that allow more than one server, or none. */
const severalHosts = new Set(['rbd', 'gluster'])
const noHost = new Set(['rbd'])

const removed = new Set(['sheepdog', 'vxhs', 'tftp'])

/** Protocols whose names begin with a pool or volume. */
const pooled: { readonly [protocol: string]: string } = { rbd: 'POOL/IMAGE', gluster: 'VOLUME/IMAGE' }

const diskProtocol = eachDevice('disks')(
  'disk-protocol',
  'A network disk must use a protocol that QEMU still supports, have a name, and set only options of the protocol.',
  function* ({ type, source }, at) {
    if (type !== 'network' || source?.protocol === undefined) return
    const { protocol, name, identity } = source
    if (removed.has(protocol)) {
      yield unsupported(`${at}.source.protocol`, protocol, 'is no longer supported by QEMU')
      return
    }
    const form = pooled[protocol]
    if (name === undefined && protocol !== 'nbd')
      yield required(`${at}.source.name`, `must be set for protocol ${protocol}`)
    else if (form !== undefined && name?.includes('/') !== true)
      yield invalid(`${at}.source.name`, name, `must be ${form} for protocol ${protocol}`)
    else if (name === '' && protocol === 'iscsi') yield invalid(`${at}.source.name`, name, 'must not be empty')
    yield* forbidEach(source, `${at}.source`, othersOf[protocol] ?? options, `must not be set for protocol ${protocol}`)
    if (protocol === 'ssh' && identity && identity.username === undefined)
      yield required(`${at}.source.identity.username`, 'must be set for protocol ssh')
  },
  example(disk({ protocol: 'sheepdog', name: 'image', host }), disk({ protocol: 'rbd', name: 'pool/image', host })),
)

const diskHosts = eachDevice('disks')(
  'disk-hosts',
  'A network disk must have as many servers as its protocol supports, each with a name, or a socket for transport unix.',
  function* ({ type, source }, at) {
    if (type !== 'network' || source?.protocol === undefined || removed.has(source.protocol)) return
    const { protocol } = source
    const servers = source.hosts ?? (source.host ? [source.host] : [])
    if (servers.length > 1 && !severalHosts.has(protocol))
      yield invalid(`${at}.source.hosts`, undefined, `must have one server for protocol ${protocol}`)
    if (servers.length === 0 && !noHost.has(protocol))
      yield required(`${at}.source.hosts`, `must be set for protocol ${protocol}: the server`)
    for (const [index, server] of servers.entries()) {
      yield* serverCauses(server, protocol, source.hosts ? `${at}.source.hosts[${index}]` : `${at}.source.host`)
    }
  },
  example(
    disk({ protocol: 'iscsi', name: 'iqn.2017-01.example:disk/1', hosts: [host, host] }),
    disk({ protocol: 'iscsi', name: 'iqn.2017-01.example:disk/1', hosts: [host] }),
  ),
)

function* serverCauses(
  { transport = 'tcp', socket, name, port }: NonNullable<Source['host']>,
  protocol: string,
  at: string,
): Iterable<Finding> {
  const isUnix = transport === 'unix'
  if (isUnix && socket === undefined) yield required(`${at}.socket`, 'must be set for transport unix')
  if (!isUnix && name === undefined) yield required(`${at}.name`, `must be set for transport ${transport}`)
  if (isUnix && name !== undefined) yield forbidden(`${at}.name`, name, 'must not be set for transport unix')
  if (!isUnix && socket !== undefined)
    yield forbidden(`${at}.socket`, socket, `must not be set for transport ${transport}`)
  if (protocol !== 'nfs') return
  if (transport !== 'tcp') yield invalid(`${at}.transport`, transport, 'must be tcp for protocol nfs')
  if (port !== undefined) yield forbidden(`${at}.port`, port, 'must not be set for protocol nfs')
}

export const diskNetworkRules: readonly Rule[] = [diskProtocol, diskHosts]
