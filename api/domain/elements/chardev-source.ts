import { attribute, child, children, element, type Union } from '../description.ts'
import { reconnect } from './reconnect.ts'
import { oneOf, onOff, path, yesNo } from '../scalar.ts'
import { sourceSeclabel } from './source-seclabel.ts'
import { anyPath, identifier, line } from '../text.ts'

const host = { reach: 'host' } as const

/**
 * libvirt creates a `unix` socket without a path inside the pod, which is how to reach the guest agent. A user-chosen
 * path can reach the host; its reach is set on `path`.
 */
export const chardevType = attribute(
  oneOf(
    'null',
    'vc',
    'pty',
    'dev',
    'file',
    'pipe',
    'stdio',
    'udp',
    'tcp',
    'unix',
    'spicevmc',
    'spiceport',
    'qemu-vdagent',
    'dbus',
  ),
  'The kind of the host end, which decides the fields of `source`.',
  {
    reachOf: {
      pty: 'pod',
      stdio: 'pod',
      unix: 'pod',
      dev: 'host',
      file: 'host',
      pipe: 'host',
      udp: 'host',
      tcp: 'host',
    },
  },
)

const source = element('The host end. The `type` of the device decides which fields apply.', {
  mode: attribute(oneOf('connect', 'bind'), 'Whether QEMU connects or listens; with `udp`, each has its own source.'),
  path: attribute(anyPath, 'The file, pipe, device or socket.', host),
  append: attribute(onOff, 'Whether to append to the file; it is truncated if absent.'),
  host: attribute(line(255), 'Host name or address, with `tcp` and `udp`.', host),
  service: attribute(line(255), 'Port, with `tcp` and `udp`.', host),
  tls: attribute(yesNo, 'Whether a `tcp` connection is encrypted.'),
  channel: attribute(identifier, 'The name of the channel, with `spiceport` and `dbus`.'),
  reconnect: child(reconnect, 'Whether to reconnect after the connection is lost.'),
  clipboard: child(
    element('The clipboard, with `qemu-vdagent`.', {
      copypaste: attribute(yesNo, 'Whether viewer and guest share the clipboard.'),
    }),
    'The clipboard, with `qemu-vdagent`.',
  ),
  mouse: child(
    element('The mouse, with `qemu-vdagent`.', {
      mode: attribute(oneOf('server', 'client'), 'Whether the client or the guest draws the pointer.'),
    }),
    'The mouse, with `qemu-vdagent`.',
  ),
  seclabels: children('seclabel', sourceSeclabel, 'How security modules of the node label this source.', {
    key: [['model']],
    single: 'seclabel',
  }),
})

const protocol = element('The protocol on a `tcp` connection.', {
  type: attribute(oneOf('raw', 'telnet', 'telnets', 'tls'), '`raw` if absent.'),
})

const log = element('A copy of what the guest writes.', {
  file: attribute(path, 'The log file.', host),
  append: attribute(onOff, 'Whether to append to the file; it is truncated if absent.'),
})

/** The fields of every character device, beside its type. */
export const chardevFields = {
  sources: children('source', source, 'The host end; two with `udp`, one for each direction.', { single: 'source' }),
  protocol: child(protocol, 'The protocol on a `tcp` connection.'),
  log: child(log, 'A copy of what the guest writes.'),
} as const

const below = (...names: string[]): readonly string[] => names.map((name) => `sources.${name}`)

/** The fields that the type decides. */
export const chardevUnion: Union = {
  by: 'type',
  owns: ['sources', 'protocol'],
  branches: {
    null: [],
    vc: [],
    stdio: [],
    spicevmc: [],
    pty: below('path', 'seclabels'),
    dev: below('path', 'seclabels'),
    file: below('path', 'append', 'seclabels'),
    pipe: below('path', 'seclabels'),
    udp: below('mode', 'host', 'service'),
    tcp: [...below('mode', 'host', 'service', 'tls', 'reconnect'), 'protocol'],
    unix: below('mode', 'path', 'reconnect', 'seclabels'),
    spiceport: below('channel'),
    dbus: below('channel'),
    'qemu-vdagent': below('clipboard', 'mouse'),
  },
}
