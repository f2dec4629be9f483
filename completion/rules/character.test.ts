import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Serial = DeviceOf<'serials'>
type Channel = DeviceOf<'channels'>
type Source = NonNullable<Serial['source']>

const serial = (more: Serial): Domain => ({ devices: { serials: [more] } })

const channel = (more: Channel): Domain => ({ devices: { channels: [more] } })

const tcp = (source: Source): Domain =>
  serial({ type: 'tcp', source: { mode: 'connect', host: 'h', service: '1', ...source } })

testRule('character-source', [
  {
    refused: serial({ type: 'file' }),
    causes: [
      'spec.domain.devices.serials[0].source.path: Required value: must be set for type file',
      'spec.domain.devices.consoles[0].source.path: Required value: must be set for type file',
    ],
    accepted: serial({ type: 'file', source: { path: '/log' } }),
  },
  {
    refused: serial({ type: 'pipe' }),
    causes: [
      'spec.domain.devices.serials[0].source.path: Required value: must be set for type pipe',
      'spec.domain.devices.consoles[0].source.path: Required value: must be set for type pipe',
    ],
    accepted: serial({ type: 'pipe', source: { path: '/pipe' } }),
  },
  {
    refused: serial({ type: 'dev' }),
    causes: [
      'spec.domain.devices.serials[0].source.path: Required value: must be set for type dev',
      'spec.domain.devices.consoles[0].source.path: Required value: must be set for type dev',
    ],
    accepted: serial({ type: 'dev', source: { path: '/dev/ttyS0' } }),
  },
  {
    refused: serial({ type: 'unix', source: { mode: 'bind' } }),
    causes: [
      'spec.domain.devices.serials[0].source.path: Required value: must be set for type unix',
      'spec.domain.devices.consoles[0].source.path: Required value: must be set for type unix',
    ],
    accepted: serial({ type: 'unix', source: { mode: 'bind', path: '/s' } }),
  },
  {
    refused: channel({ type: 'unix', target: { type: 'guestfwd', address: '10.0.2.1', port: 80 } }),
    causes: ['spec.domain.devices.channels[0].source.path: Required value: must be set for type unix'],
    accepted: channel({ type: 'unix', target: { type: 'virtio', name: 'org.example' } }),
  },
  {
    refused: { devices: { redirdevs: [{ bus: 'usb', type: 'unix' }] } },
    causes: ['spec.domain.devices.redirdevs[0].source.path: Required value: must be set for type unix'],
    accepted: { devices: { redirdevs: [{ bus: 'usb', type: 'unix', source: { mode: 'connect', path: '/s' } }] } },
  },
  {
    refused: { devices: { channels: [{ type: 'unix', target: { type: 'virtio' } }], serials: [{ type: 'unix' }] } },
    causes: [
      'spec.domain.devices.serials[0].source.path: Required value: must be set for type unix',
      'spec.domain.devices.consoles[0].source.path: Required value: must be set for type unix',
    ],
    accepted: { devices: { channels: [{ type: 'unix', target: { type: 'virtio' } }], serials: [{ type: 'pty' }] } },
  },
  {
    refused: {
      devices: {
        parallels: [{ type: 'file' }],
        consoles: [{ type: 'file', target: { type: 'virtio' } }],
        smartcards: [{ mode: 'passthrough', type: 'tcp' }],
      },
    },
    causes: [
      'spec.domain.devices.parallels[0].source.path: Required value: must be set for type file',
      'spec.domain.devices.consoles[0].source.path: Required value: must be set for type file',
      'spec.domain.devices.smartcards[0].source.host: Required value: must be set for type tcp',
      'spec.domain.devices.smartcards[0].source.service: Required value: must be set for type tcp',
    ],
    accepted: {
      devices: {
        parallels: [{ type: 'pty' }],
        consoles: [{ type: 'pty', target: { type: 'virtio' } }],
        smartcards: [{ mode: 'passthrough', type: 'spicevmc' }],
        graphics: [{ type: 'spice' }],
      },
    },
  },
  {
    refused: { devices: { rngs: [{ model: 'virtio', backend: { model: 'egd', type: 'tcp' } }] } },
    causes: [
      'spec.domain.devices.rngs[0].backend.source.host: Required value: must be set for type tcp',
      'spec.domain.devices.rngs[0].backend.source.service: Required value: must be set for type tcp',
    ],
    accepted: {
      devices: {
        rngs: [
          {
            model: 'virtio',
            backend: { model: 'egd', type: 'tcp', source: { mode: 'connect', host: 'h', service: '1' } },
          },
        ],
      },
    },
  },
  {
    refused: serial({ type: 'tcp', source: { mode: 'connect' } }),
    causes: [
      'spec.domain.devices.serials[0].source.host: Required value: must be set for type tcp',
      'spec.domain.devices.serials[0].source.service: Required value: must be set for type tcp',
      'spec.domain.devices.consoles[0].source.host: Required value: must be set for type tcp',
      'spec.domain.devices.consoles[0].source.service: Required value: must be set for type tcp',
    ],
    accepted: tcp({}),
  },
  {
    refused: serial({ type: 'tcp', source: { mode: 'connect', host: '', service: '1' } }),
    causes: [
      'spec.domain.devices.serials[0].source.host: Required value: must be set for type tcp',
      "spec.domain.devices.consoles[0].source.host: Required value: must be set for type tcp (libvirt's default, console-serial)",
    ],
    accepted: tcp({}),
  },
  {
    refused: serial({ type: 'udp', source: { mode: 'bind', service: '1' } }),
    causes: [
      'spec.domain.devices.serials[0].source.service: Required value: must be set for type udp, with mode connect: the port of the other end',
      "spec.domain.devices.consoles[0].source.service: Required value: must be set for type udp, with mode connect: the port of the other end (libvirt's default, console-serial)",
    ],
    accepted: serial({ type: 'udp', source: { mode: 'connect', host: 'h', service: '1' } }),
  },
  {
    refused: serial({ type: 'udp', source: { mode: 'connect', host: 'h' } }),
    causes: [
      'spec.domain.devices.serials[0].source.service: Required value: must be set for type udp, with mode connect: the port of the other end',
      'spec.domain.devices.consoles[0].source.service: Required value: must be set for type udp, with mode connect: the port of the other end',
    ],
    accepted: serial({ type: 'udp', source: { host: 'h', service: '1' } }),
  },
  {
    refused: serial({
      type: 'udp',
      sources: [
        { mode: 'connect', host: 'h', service: '1' },
        { mode: 'bind', service: '2' },
        { mode: 'bind', service: '3' },
      ],
    }),
    causes: [
      'spec.domain.devices.serials[0].sources: Too many: 3: must have at most 2 for type udp',
      'spec.domain.devices.consoles[0].sources: Too many: 3: must have at most 2 for type udp',
    ],
    accepted: serial({
      type: 'udp',
      sources: [
        { mode: 'bind', service: '2' },
        { mode: 'connect', host: 'h', service: '1' },
      ],
    }),
  },
  {
    refused: serial({ type: 'file', sources: [{ path: '/a' }, { path: '/b' }] }),
    causes: [
      'spec.domain.devices.serials[0].sources: Too many: 2: must have at most 1 for type file',
      'spec.domain.devices.consoles[0].sources: Too many: 2: must have at most 1 for type file',
    ],
    accepted: serial({ type: 'file', sources: [{ path: '/a' }] }),
  },
  {
    refused: serial({ type: 'spiceport' }),
    causes: [
      'spec.domain.devices.serials[0].source.channel: Required value: must be set for type spiceport',
      'spec.domain.devices.consoles[0].source.channel: Required value: must be set for type spiceport',
    ],
    accepted: {
      devices: {
        serials: [{ type: 'spiceport', source: { channel: 'org.example-1_a' } }],
        graphics: [{ type: 'spice' }],
      },
    },
  },
  {
    refused: serial({ type: 'dbus' }),
    causes: [
      'spec.domain.devices.serials[0].source.channel: Required value: must be set for type dbus',
      'spec.domain.devices.consoles[0].source.channel: Required value: must be set for type dbus',
    ],
    accepted: { devices: { serials: [{ type: 'dbus', source: { channel: 'c' } }], graphics: [{ type: 'dbus' }] } },
  },
  {
    refused: {
      devices: { redirdevs: [{ bus: 'usb', type: 'dbus' }], serials: [{ type: 'dbus' }], graphics: [{ type: 'dbus' }] },
    },
    causes: [
      'spec.domain.devices.serials[0].source.channel: Required value: must be set for type dbus',
      'spec.domain.devices.consoles[0].source.channel: Required value: must be set for type dbus',
    ],
    accepted: { devices: { redirdevs: [{ bus: 'usb', type: 'dbus' }], graphics: [{ type: 'dbus' }] } },
  },
])

const vhostUserDisk = (reconnect: { enabled: boolean; timeout?: number }): Domain => ({
  memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } },
  devices: {
    disks: [
      {
        type: 'vhostuser',
        source: { type: 'unix', path: '/tmp/disk.sock', reconnect },
        target: { dev: 'vda', bus: 'virtio' },
      },
    ],
  },
})

testRule('character-reconnect', [
  {
    refused: serial({ type: 'tcp', source: { mode: 'bind', host: 'h', service: '1', reconnect: { enabled: false } } }),
    causes: [
      'spec.domain.devices.serials[0].source.reconnect: Forbidden: can only be set for mode connect',
      'spec.domain.devices.consoles[0].source.reconnect: Forbidden: can only be set for mode connect',
    ],
    accepted: tcp({ reconnect: { enabled: false } }),
  },
  {
    refused: tcp({ reconnect: { enabled: true } }),
    causes: [
      'spec.domain.devices.serials[0].source.reconnect.timeout: Required value: must be set when reconnect is enabled: seconds',
      'spec.domain.devices.consoles[0].source.reconnect.timeout: Required value: must be set when reconnect is enabled: seconds',
    ],
    accepted: tcp({ reconnect: { enabled: true, timeout: 1 } }),
  },
  {
    refused: tcp({ reconnect: { enabled: true, timeout: 0 } }),
    causes: [
      'spec.domain.devices.serials[0].source.reconnect.timeout: Invalid value: 0: must be at least 1 second',
      "spec.domain.devices.consoles[0].source.reconnect.timeout: Invalid value: 0: must be at least 1 second (libvirt's default, console-serial)",
    ],
    accepted: tcp({ reconnect: { enabled: false, timeout: 0 } }),
  },
  {
    refused: vhostUserDisk({ enabled: true }),
    causes: [
      'spec.domain.devices.disks[0].source.reconnect.timeout: Required value: must be set when reconnect is enabled: seconds',
    ],
    accepted: vhostUserDisk({ enabled: true, timeout: 0 }),
  },
])

testRule('character-protocol', [
  {
    refused: serial({ type: 'tcp', source: { mode: 'bind', host: 'h', service: '1' }, protocol: { type: 'telnets' } }),
    causes: [
      'spec.domain.devices.serials[0].protocol.type: Unsupported value: "telnets": must be raw or telnet; for TLS: raw, with source.tls: true',
      `spec.domain.devices.consoles[0].protocol.type: Unsupported value: "telnets": must be raw or telnet (libvirt's default, console-serial); for TLS: raw, with source.tls: true`,
    ],
    accepted: serial({ type: 'tcp', source: { mode: 'bind', host: 'h', service: '1' }, protocol: { type: 'telnet' } }),
  },
  {
    refused: serial({ type: 'tcp', source: { mode: 'bind', host: 'h', service: '1' }, protocol: { type: 'tls' } }),
    causes: [
      'spec.domain.devices.serials[0].protocol.type: Unsupported value: "tls": must be raw or telnet; for TLS: raw, with source.tls: true',
      `spec.domain.devices.consoles[0].protocol.type: Unsupported value: "tls": must be raw or telnet (libvirt's default, console-serial); for TLS: raw, with source.tls: true`,
    ],
    accepted: serial({ type: 'tcp', source: { mode: 'bind', host: 'h', service: '1' }, protocol: { type: 'raw' } }),
  },
  { refused: tcp({}), causes: [], accepted: serial({ type: 'pty', protocol: { type: 'tls' } }) },
])

testRule('channel-target', [
  {
    refused: channel({ type: 'pty' }),
    causes: ['spec.domain.devices.channels[0].target.type: Required value: must be set: virtio or guestfwd'],
    accepted: channel({ type: 'pty', target: { type: 'virtio' } }),
  },
  {
    refused: channel({ type: 'pty', target: { type: 'guestfwd' } }),
    causes: [
      'spec.domain.devices.channels[0].target.address: Required value: must be set for target type guestfwd',
      'spec.domain.devices.channels[0].target.port: Required value: must be set for target type guestfwd',
    ],
    accepted: channel({ type: 'pty', target: { type: 'guestfwd', address: '10.0.2.1', port: 80 } }),
  },
  {
    refused: channel({ type: 'pty', target: { type: 'guestfwd', address: 'fec0::1', port: 80 } }),
    causes: ['spec.domain.devices.channels[0].target.address: Invalid value: "fec0::1": must be an IPv4 address'],
    accepted: channel({ type: 'pty', target: { type: 'guestfwd', address: '10.0.2.1', port: 80 } }),
  },
  {
    refused: channel({ type: 'spicevmc', target: { type: 'guestfwd', address: '10.0.2.1', port: 80 } }),
    causes: [
      'spec.domain.devices.channels[0].target.type: Invalid value: "guestfwd": must be virtio for type spicevmc',
    ],
    accepted: {
      devices: { channels: [{ type: 'spicevmc', target: { type: 'virtio' } }], graphics: [{ type: 'spice' }] },
    },
  },
  {
    refused: channel({ type: 'pty', target: { type: 'guestfwd', address: 'fec0::1', port: 80 } }),
    causes: ['spec.domain.devices.channels[0].target.address: Invalid value: "fec0::1": must be an IPv4 address'],
    accepted: channel({ type: 'pty', target: { type: 'virtio', name: 'agent' } }),
  },
])

const named = (type: 'unix' | 'pty', length: number): Domain =>
  channel({ type, target: { type: 'virtio', name: 'a'.repeat(length) } })

testRule('channel-socket', [
  {
    refused: named('unix', 64),
    causes: [
      'spec.domain.devices.channels[0].target.name: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be at most 46 bytes: it is part of the path of a socket',
    ],
    accepted: named('pty', 64),
  },
  {
    refused: named('unix', 47),
    causes: [
      'spec.domain.devices.channels[0].target.name: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be at most 46 bytes: it is part of the path of a socket',
    ],
    accepted: named('unix', 46),
  },
  {
    refused: channel({ type: 'unix', target: { type: 'virtio', name: 'ü'.repeat(30) } }),
    causes: [
      'spec.domain.devices.channels[0].target.name: Invalid value: "üüüüüüüüüüüüüüüüüüüüüüüüüüüüüü": must be at most 46 bytes: it is part of the path of a socket',
    ],
    accepted: channel({
      type: 'unix',
      source: { mode: 'bind', path: '/s' },
      target: { type: 'virtio', name: 'a'.repeat(64) },
    }),
  },
])

const ports = (...addresses: { controller?: number; port?: string }[]): Domain => ({
  devices: {
    channels: addresses.map((address, index) => ({
      type: 'pty',
      target: { type: 'virtio', name: `org.example.${index}` },
      address: { type: 'virtio-serial', ...address },
    })),
  },
})

const controllers = (...controllers: DeviceOf<'controllers'>[]): Domain['devices'] => ({ controllers })

const consolePort = (address: object, more: Domain['devices'] = {}): Domain => ({
  devices: {
    consoles: [{ type: 'pty', target: { type: 'virtio' }, address: { type: 'virtio-serial', ...address } }],
    ...more,
  },
})

testRule('virtio-serial-port', [
  { refused: ports({ controller: 300 }), causes: [], accepted: ports({ controller: 1 }) },
  {
    refused: ports({ port: '1' }, { port: '1' }),
    causes: [
      'spec.domain.devices.channels[1].address.port: Duplicate value: "1": is already the port of spec.domain.devices.channels[0].address',
    ],
    accepted: ports({ port: '1' }, { port: '2' }),
  },
  {
    refused: ports({ port: '31' }),
    causes: [
      'spec.domain.devices.channels[0].address.port: Invalid value: "31": must be less than 31, the ports of controller 0',
    ],
    accepted: ports({ port: '30' }),
  },
  {
    refused: {
      devices: {
        ...ports({ controller: 1, port: '4' }).devices,
        ...controllers({ type: 'virtio-serial', index: 1, ports: 4 }, { type: 'scsi', index: 2 }),
      },
    },
    causes: [
      'spec.domain.devices.channels[0].address.port: Invalid value: "4": must be less than 4, the ports of controller 1',
    ],
    accepted: {
      devices: {
        ...ports({ controller: 1, port: '3' }).devices,
        ...controllers({ type: 'virtio-serial', index: 1, ports: 4 }),
      },
    },
  },
  {
    refused: {
      devices: {
        ...ports({ controller: 0, port: '1' }, { controller: 1, port: '1' }, { controller: 1, port: '1' }).devices,
      },
    },
    causes: [
      'spec.domain.devices.channels[2].address.port: Duplicate value: "1": is already the port of spec.domain.devices.channels[1].address',
    ],
    accepted: ports({ controller: 0, port: '1' }, { controller: 1, port: '1' }),
  },
  {
    refused: consolePort({ controller: 1 }),
    causes: [
      `spec.domain.devices.consoles[0].address.port: Invalid value: "0": must be at least 1 when no virtio-serial controller has index 0 (libvirt's default, virtio-serial-address)`,
    ],
    accepted: consolePort({ controller: 0 }),
  },
  {
    refused: consolePort({ controller: 1, port: '0' }),
    causes: [
      'spec.domain.devices.consoles[0].address.port: Invalid value: "0": must be at least 1 when no virtio-serial controller has index 0',
    ],
    accepted: consolePort({ controller: 1, port: '3' }),
  },
  {
    refused: consolePort({ controller: 1, port: '0' }),
    causes: [
      'spec.domain.devices.consoles[0].address.port: Invalid value: "0": must be at least 1 when no virtio-serial controller has index 0',
    ],
    accepted: consolePort(
      { controller: 1, port: '0' },
      controllers({ type: 'virtio-serial', index: 0 }, { type: 'virtio-serial', index: 1 }),
    ),
  },
  {
    refused: {
      devices: {
        consoles: [1, 1].map((port) => ({
          type: 'pty' as const,
          target: { type: 'virtio' as const },
          address: { type: 'virtio-serial' as const, port: String(port) },
        })),
      },
    },
    causes: [
      'spec.domain.devices.consoles[1].address.port: Duplicate value: "1": is already the port of spec.domain.devices.consoles[0].address',
    ],
    accepted: {
      devices: {
        consoles: [1, 2].map((port) => ({
          type: 'pty' as const,
          target: { type: 'virtio' as const },
          address: { type: 'virtio-serial' as const, port: String(port) },
        })),
      },
    },
  },
])
