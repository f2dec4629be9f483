import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Source = NonNullable<DeviceOf<'disks'>['source']>
type Protocol = NonNullable<Source['protocol']>

const host = { name: 'example.org' }

const names: { readonly [protocol in Protocol]?: string } = {
  rbd: 'pool/image',
  gluster: 'volume/image',
  iscsi: 'iqn.2017-01.example:disk/1',
}

const disk = (protocol: Protocol, more: Source = {}): Domain => ({
  devices: {
    disks: [
      {
        type: 'network',
        source: { protocol, name: names[protocol] ?? 'image', host, ...more },
        target: { dev: 'vda' },
      },
    ],
  },
})

const unnamed = (protocol: Protocol): Domain => ({
  devices: { disks: [{ type: 'network', source: { protocol, host }, target: { dev: 'vda' } }] },
})

testRule('disk-protocol', [
  {
    refused: {
      devices: { disks: [{ type: 'block', source: { dev: '/dev/sda', protocol: 'iscsi' }, target: { dev: 'vda' } }] },
    },
    causes: [],
    accepted: disk('iscsi'),
  },
  {
    refused: disk('sheepdog'),
    causes: [
      'spec.domain.devices.disks[0].source.protocol: Unsupported value: "sheepdog": is no longer supported by QEMU',
    ],
    accepted: disk('rbd'),
  },
  {
    refused: disk('vxhs'),
    causes: ['spec.domain.devices.disks[0].source.protocol: Unsupported value: "vxhs": is no longer supported by QEMU'],
    accepted: disk('iscsi'),
  },
  {
    refused: disk('tftp'),
    causes: ['spec.domain.devices.disks[0].source.protocol: Unsupported value: "tftp": is no longer supported by QEMU'],
    accepted: disk('http'),
  },
  {
    refused: unnamed('iscsi'),
    causes: ['spec.domain.devices.disks[0].source.name: Required value: must be set for protocol iscsi'],
    accepted: unnamed('nbd'),
  },
  {
    refused: unnamed('rbd'),
    causes: ['spec.domain.devices.disks[0].source.name: Required value: must be set for protocol rbd'],
    accepted: disk('nbd'),
  },
  {
    refused: disk('rbd', { name: 'image' }),
    causes: ['spec.domain.devices.disks[0].source.name: Invalid value: "image": must be POOL/IMAGE for protocol rbd'],
    accepted: disk('rbd'),
  },
  {
    refused: disk('gluster', { name: 'image' }),
    causes: [
      'spec.domain.devices.disks[0].source.name: Invalid value: "image": must be VOLUME/IMAGE for protocol gluster',
    ],
    accepted: disk('gluster'),
  },
  {
    refused: disk('iscsi', { name: '' }),
    causes: ['spec.domain.devices.disks[0].source.name: Invalid value: "": must not be empty'],
    accepted: disk('http', { name: '' }),
  },
  {
    refused: disk('rbd', { tls: true, tlsHostname: 'h', reconnect: { delay: 1 } }),
    causes: [
      'spec.domain.devices.disks[0].source.tls: Forbidden: must not be set for protocol rbd',
      'spec.domain.devices.disks[0].source.tlsHostname: Forbidden: must not be set for protocol rbd',
      'spec.domain.devices.disks[0].source.reconnect: Forbidden: must not be set for protocol rbd',
    ],
    accepted: disk('nbd', { tls: true, tlsHostname: 'h', reconnect: { delay: 1 } }),
  },
  {
    refused: disk('nbd', { snapshot: { name: 's' }, config: { file: '/c' } }),
    causes: [
      'spec.domain.devices.disks[0].source.snapshot: Forbidden: must not be set for protocol nbd',
      'spec.domain.devices.disks[0].source.config: Forbidden: must not be set for protocol nbd',
    ],
    accepted: disk('rbd', { snapshot: { name: 's' }, config: { file: '/c' } }),
  },
  {
    refused: disk('rbd', { initiator: { iqn: { name: 'iqn.2017-01.example:a' } } }),
    causes: ['spec.domain.devices.disks[0].source.initiator: Forbidden: must not be set for protocol rbd'],
    accepted: disk('iscsi', { initiator: { iqn: { name: 'iqn.2017-01.example:a' } } }),
  },
  {
    refused: disk('http', { ssl: { verify: false } }),
    causes: ['spec.domain.devices.disks[0].source.ssl: Forbidden: must not be set for protocol http'],
    accepted: disk('https', { ssl: { verify: false }, query: 'a=b' }),
  },
  {
    refused: disk('ftp', { query: 'a=b' }),
    causes: ['spec.domain.devices.disks[0].source.query: Forbidden: must not be set for protocol ftp'],
    accepted: disk('ftps', { readahead: { size: 1 }, timeout: { seconds: 1 }, ssl: { verify: true } }),
  },
  {
    refused: disk('ssh', { identity: { keyfile: '/k' } }),
    causes: ['spec.domain.devices.disks[0].source.identity.username: Required value: must be set for protocol ssh'],
    accepted: disk('ssh', { identity: { username: 'me', keyfile: '/k' }, knownHosts: { path: '/h' } }),
  },
  {
    refused: disk('http', { identity: { user: 'me', group: 'us' } }),
    causes: ['spec.domain.devices.disks[0].source.identity: Forbidden: must not be set for protocol http'],
    accepted: disk('nfs', { identity: { user: 'me', group: 'us' } }),
  },
])

testRule('disk-hosts', [
  {
    refused: {
      devices: { disks: [{ type: 'block', source: { dev: '/dev/sda', protocol: 'iscsi' }, target: { dev: 'vda' } }] },
    },
    causes: [],
    accepted: disk('iscsi'),
  },
  {
    refused: {
      devices: {
        disks: [{ type: 'network', source: { protocol: 'sheepdog', name: 'image' }, target: { dev: 'vda' } }],
      },
    },
    causes: [],
    accepted: disk('nbd'),
  },
  {
    refused: {
      devices: {
        disks: [
          {
            type: 'network',
            source: { protocol: 'iscsi', name: 'iqn.2017-01.example:disk/1', hosts: [host, host] },
            target: { dev: 'vda' },
          },
        ],
      },
    },
    causes: ['spec.domain.devices.disks[0].source.hosts: Invalid value: must have one server for protocol iscsi'],
    accepted: {
      devices: {
        disks: [
          {
            type: 'network',
            source: { protocol: 'iscsi', name: 'iqn.2017-01.example:disk/1', hosts: [host] },
            target: { dev: 'vda' },
          },
        ],
      },
    },
  },
  {
    refused: { devices: { disks: [{ type: 'network', source: { protocol: 'nbd' }, target: { dev: 'vda' } }] } },
    causes: ['spec.domain.devices.disks[0].source.hosts: Required value: must be set for protocol nbd: the server'],
    accepted: {
      devices: {
        disks: [{ type: 'network', source: { protocol: 'rbd', name: 'pool/image' }, target: { dev: 'vda' } }],
      },
    },
  },
  {
    refused: {
      devices: {
        disks: [
          {
            type: 'network',
            source: { protocol: 'gluster', name: 'volume/image', hosts: [host, {}] },
            target: { dev: 'vda' },
          },
        ],
      },
    },
    causes: ['spec.domain.devices.disks[0].source.hosts[1].name: Required value: must be set for transport tcp'],
    accepted: {
      devices: {
        disks: [
          {
            type: 'network',
            source: { protocol: 'gluster', name: 'volume/image', hosts: [host, host] },
            target: { dev: 'vda' },
          },
        ],
      },
    },
  },
  {
    refused: disk('nbd', { host: {} }),
    causes: ['spec.domain.devices.disks[0].source.host.name: Required value: must be set for transport tcp'],
    accepted: disk('nbd'),
  },
  {
    refused: disk('nbd', { host: { transport: 'unix' } }),
    causes: ['spec.domain.devices.disks[0].source.host.socket: Required value: must be set for transport unix'],
    accepted: disk('nbd', { host: { transport: 'unix', socket: '/s' } }),
  },
  {
    refused: disk('nbd', { host: { transport: 'unix', socket: '/s', name: 'h' } }),
    causes: ['spec.domain.devices.disks[0].source.host.name: Forbidden: must not be set for transport unix'],
    accepted: disk('nbd', { host: { transport: 'tcp', name: 'h' } }),
  },
  {
    refused: disk('nbd', { host: { transport: 'tcp', socket: '/s', name: 'h' } }),
    causes: ['spec.domain.devices.disks[0].source.host.socket: Forbidden: must not be set for transport tcp'],
    accepted: disk('nbd', { host: { name: 'h', port: '10809' } }),
  },
  {
    refused: disk('nfs', { host: { transport: 'rdma', name: 'h', port: '1' }, identity: { user: 'me' } }),
    causes: [
      'spec.domain.devices.disks[0].source.host.transport: Invalid value: "rdma": must be tcp for protocol nfs',
      'spec.domain.devices.disks[0].source.host.port: Forbidden: must not be set for protocol nfs',
    ],
    accepted: disk('nfs', { host: { transport: 'tcp', name: 'h' } }),
  },
  {
    refused: disk('nfs', { host: { name: 'h', port: '1' } }),
    causes: ['spec.domain.devices.disks[0].source.host.port: Forbidden: must not be set for protocol nfs'],
    accepted: disk('nfs'),
  },
])
