import type { Domain } from '../../api/domain/domain.ts'

/** A domain that libvirt accepts with the text at the place in question, and texts that it accepts there. */
export interface Make {
  readonly valid: readonly [string, ...string[]]
  readonly domain: (value: string) => Domain
}

type Devices = NonNullable<Domain['devices']>
type Disk = NonNullable<Devices['disks']>[number]

const disk = (more: Disk): Domain => ({
  devices: {
    disks: [
      { type: 'file', device: 'disk', source: { file: '/disk.img' }, target: { dev: 'vda', bus: 'virtio' }, ...more },
    ],
  },
})
const network = (source: NonNullable<Disk['source']>): Domain => disk({ type: 'network', source })
const host = { name: 'storage.example', port: 80 }
const device = (devices: Devices): Domain => ({ devices })
const channel = (more: NonNullable<Devices['channels']>[number]): Domain =>
  device({ channels: [{ type: 'unix', target: { type: 'virtio', name: 'org.example' }, ...more }] })
const graphics = (more: NonNullable<Devices['graphics']>[number]): Domain =>
  device({ graphics: [{ type: 'vnc', port: 5900, ...more }] })
const smbios = (more: NonNullable<Domain['sysinfos']>[number]): Domain => ({
  os: { smbios: { mode: 'sysinfo' } },
  sysinfos: [{ type: 'smbios', ...more }],
})

const at = (domain: Make['domain'], ...valid: Make['valid']): Make => ({ valid, domain })

/** By path in the description. Texts that admission allows are tried there on the real libvirt. */
export const places: { readonly [path: string]: Make } = {
  name: at((name) => ({ name }), 'vm', 'a b,c=d', 'é'),
  title: at((title) => ({ title }), 'A title, with commas'),
  description: at((description) => ({ description }), 'a\nb'),
  'throttlegroups.throttlegroups.groupName': at(
    (groupName) => ({
      ...disk({ throttlefilters: { throttlefilters: [{ group: groupName }] } }),
      throttlegroups: { throttlegroups: [{ groupName, totalIopsSec: 5 }] },
    }),
    'limit0',
  ),
  'devices.disks.throttlefilters.throttlefilters.group': at(
    (group) => ({
      ...disk({ throttlefilters: { throttlefilters: [{ group }] } }),
      throttlegroups: { throttlegroups: [{ groupName: group, totalIopsSec: 5 }] },
    }),
    'limit0',
  ),
  'sysinfos.bios.entries.value': at(
    (value) => smbios({ bios: { entries: [{ name: 'vendor', value }] } }),
    'LENOVO',
    'a,b=c',
  ),
  'sysinfos.system.entries.value': at((value) => smbios({ system: { entries: [{ name: 'product', value }] } }), 'a'),
  'sysinfos.baseBoards.entries.value': at(
    (value) => smbios({ baseBoards: [{ entries: [{ name: 'product', value }] }] }),
    'a',
  ),
  'sysinfos.chassis.entries.value': at((value) => smbios({ chassis: { entries: [{ name: 'version', value }] } }), 'a'),
  'sysinfos.oemStrings.entries': at((value) => smbios({ oemStrings: { entries: [value] } }), 'a', 'io.systemd=a,b'),
  'sysinfos.entries.name': at(
    (name) => ({ sysinfos: [{ type: 'fwcfg', entries: [{ name: `opt/${name}`, value: 'a' }] }] }),
    'com.example/name',
  ),
  'sysinfos.entries.value': at(
    (value) => ({ sysinfos: [{ type: 'fwcfg', entries: [{ name: 'opt/com.example/name', value }] }] }),
    'example value',
    'a,,b=c',
  ),
  'os.cmdline': at((cmdline) => ({ os: { kernel: '/vmlinuz', cmdline } }), 'console=ttyS0,115200 quiet'),
  'features.hyperv.vendorId.value': at(
    (value) => ({ features: { hyperv: { mode: 'custom', vendorId: { state: true, value } } } }),
    'KVM Hv',
  ),
  'cpu.model.vendorId': at(
    (vendorId) => ({ cpu: { mode: 'custom', match: 'exact', check: 'none', model: { vendorId, value: 'qemu64' } } }),
    'AuthenticAMD',
  ),
  'cpu.vendor': at(
    (vendor) => ({ cpu: { mode: 'custom', match: 'exact', check: 'none', vendor, model: { value: 'qemu64' } } }),
    'Intel',
  ),
  'clock.timezone': at((timezone) => ({ clock: { offset: 'timezone', timezone } }), 'Europe/Paris', 'Etc/GMT+5'),
  'devices.disks.source.name': at((name) => network({ protocol: 'nbd', name, host }), 'export'),
  'devices.disks.source.query': at((query) => network({ protocol: 'https', name: 'a', query, host }), 'a=b&c=d'),
  'devices.disks.source.tlsHostname': at(
    (tlsHostname) => network({ protocol: 'nbd', name: 'a', tls: true, tlsHostname, host }),
    'storage.example',
  ),
  'devices.disks.source.hosts.name': at(
    (name) => network({ protocol: 'nbd', name: 'a', host: { name, port: 80 } }),
    'storage.example',
    '10.0.0.1',
    'fe80::1',
  ),
  'devices.disks.source.snapshot.name': at(
    (name) => network({ protocol: 'rbd', name: 'pool/image', host, snapshot: { name } }),
    'before-upgrade',
  ),
  'devices.disks.source.initiator.iqn.name': at(
    (name) => network({ protocol: 'iscsi', name: 'iqn.1992-01.com.example/1', host, initiator: { iqn: { name } } }),
    'iqn.1992-01.com.example:client',
  ),
  'devices.disks.source.cookies.cookies.name': at(
    (name) => network({ protocol: 'https', name: 'a', host, cookies: { cookies: [{ name, value: 'b' }] } }),
    'session',
  ),
  'devices.disks.source.cookies.cookies.value': at(
    (value) => network({ protocol: 'https', name: 'a', host, cookies: { cookies: [{ name: 'session', value }] } }),
    'a=b',
  ),
  'devices.disks.source.identity.user': at(
    (user) => network({ protocol: 'nfs', name: '/a', host: { name: 'h' }, identity: { user, group: '+1' } }),
    '+1234',
  ),
  'devices.disks.source.identity.group': at(
    (group) => network({ protocol: 'nfs', name: '/a', host: { name: 'h' }, identity: { user: '+1', group } }),
    '+1234',
  ),
  'devices.disks.source.identity.username': at(
    (username) => network({ protocol: 'ssh', name: 'a', host, identity: { username, keyfile: '/key' } }),
    'user',
  ),
  'devices.disks.target.dev': at((dev) => disk({ target: { dev, bus: 'virtio' } }), 'vda'),
  'devices.disks.iotune.groupName': at((groupName) => disk({ iotune: { totalIopsSec: 5, groupName } }), 'a'),
  'devices.disks.serial': at((serial) => disk({ serial }), '  WD-WMAP9A966149'),
  'devices.disks.vendor': at((vendor) => disk({ vendor, target: { dev: 'sda', bus: 'scsi' } }), 'SEA,GATE'),
  'devices.disks.product': at((product) => disk({ product, target: { dev: 'sda', bus: 'scsi' } }), 'ST67 807GD'),
  'devices.disks.boot.loadparm': at((loadparm) => disk({ boot: { order: 1, loadparm } }), 'A.B 1'),
  'devices.disks.alias.name': at((name) => channel({ alias: { name: `ua-${name}` } }), 'a.b_c'),
  'devices.disks.address.port': at(
    (port) => device({ inputs: [{ type: 'tablet', bus: 'usb', address: { type: 'usb', bus: 0, port } }] }),
    '1',
  ),
  'devices.filesystems.fmode': at(
    (fmode) =>
      device({
        filesystems: [{ type: 'mount', accessmode: 'mapped', fmode, source: { dir: '/tmp' }, target: { dir: 'a' } }],
      }),
    '0644',
  ),
  'devices.filesystems.dmode': at(
    (dmode) =>
      device({
        filesystems: [{ type: 'mount', accessmode: 'mapped', dmode, source: { dir: '/tmp' }, target: { dir: 'a' } }],
      }),
    '0755',
  ),
  'devices.filesystems.target.dir': at(
    (dir) => device({ filesystems: [{ type: 'mount', source: { dir: '/tmp' }, target: { dir } }] }),
    'share',
  ),
  'devices.channels.target.name': at(
    (name) => channel({ target: { type: 'virtio', name } }),
    'org.qemu.guest_agent.0',
    'a b,c=d',
  ),
  'devices.channels.sources.channel': at(
    (name) =>
      device({
        graphics: [{ type: 'dbus' }],
        channels: [{ type: 'dbus', source: { channel: name }, target: { type: 'virtio', name: 'a' } }],
      }),
    'org.qemu.console.serial.0',
  ),
  'devices.tpms.backend.profile.source': at(
    (source) =>
      device({ tpms: [{ model: 'tpm-crb', backend: { type: 'emulator', version: '2.0', profile: { source } } }] }),
    'local:restricted',
  ),
  'devices.tpms.backend.profile.name': at(
    (name) =>
      device({
        tpms: [{ model: 'tpm-crb', backend: { type: 'emulator', version: '2.0', profile: { source: 'null', name } } }],
      }),
    'default-v1',
  ),
  'devices.graphics.listen': at((listen) => graphics({ listen }), '127.0.0.1', 'a.example'),
  'devices.graphics.listens.address': at(
    (address) => graphics({ listens: [{ type: 'address', address }] }),
    '0.0.0.0',
    'a.example',
  ),
  'devices.graphics.keymap': at((keymap) => graphics({ keymap }), 'en-us'),
  'devices.graphics.passwd': at((passwd) => graphics({ passwd }), 'a,b'),
  'devices.audios.input.streamName': at(
    (streamName) => device({ audios: [{ id: 1, type: 'pulseaudio', output: { streamName } }] }),
    'a stream',
  ),
  'devices.audios.input.clientName': at(
    (clientName) => device({ audios: [{ id: 1, type: 'jack', output: { clientName } }] }),
    'a client',
  ),
}

/**
 * Texts that libvirt or QEMU looks up in a list of its own. A text that is not in the list is refused before QEMU sees
 * it.
 */
export const lookedUp: { readonly [path: string]: string } = {
  'os.type.arch': 'architectures',
  'os.type.machine': 'machine types',
  'cpu.model.value': 'CPU models',
  'cpu.features.name': 'CPU features',
  'devices.disks.driver.name': 'drivers: there is `qemu` only',
}

/** Texts that reach no command line without resources that the test does not have, and what confines them instead. */
export const unseen: { readonly [path: string]: string } = {
  'devices.disks.source.volume': 'turned into a path by the launcher',
  'devices.filesystems.source.volume': 'turned into a path by the launcher',
  'devices.disks.source.auth.username': 'needs a secret; JSON of -blockdev',
  'devices.disks.source.auth.secret.usage': 'finds a secret of libvirt',
  'devices.disks.source.encryption.secrets.usage': 'finds a secret of libvirt',
  'devices.disks.source.encryption.cipher.name': 'refused for disks of a domain',
  'devices.disks.source.encryption.cipher.mode': 'refused for disks of a domain',
  'devices.disks.source.encryption.cipher.hash': 'refused for disks of a domain',
  'devices.disks.source.encryption.ivgen.name': 'refused for disks of a domain',
  'devices.disks.source.encryption.ivgen.hash': 'refused for disks of a domain',
  'devices.interfaces.portForwards.dev': 'an argument of passt: `%NAME/PORTS`, and a name has neither `%` nor `/`',
  'devices.interfaces.target.dev': 'the tap device has to be there',
  'devices.interfaces.model.type': 'libvirt replaces interfaces in this command line; it checks the same pattern',
  'devices.interfaces.teaming.persistent': 'needs a device of the node',
  'devices.graphics.username': 'QEMU here has no RDP',
  'devices.redirfilter.usbdevs.version': 'needs a redirected device; libvirt reads it as two numbers',
}
