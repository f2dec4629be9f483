import { describe, expect, test } from 'vitest'
import { elementOf, type Element } from '../../api/domain/description.ts'
import { domain } from '../../api/domain/domain.ts'
import { validateDomain } from '../../api/domain/validate.ts'
import { hostKeys, reachOf, walk, type Place } from '../../api/domain/walk.ts'

const row = (name: string, value: object, ...paths: readonly string[]) => ({ name, value, paths })

/** The outermost paths that reach the host in a domain. */
const hostReaching = (value: object): string[] => {
  const paths: string[] = []
  const visit = ({ path, field, value: found }: Place): boolean => {
    if (reachOf(field, found) !== 'host') return true
    paths.push(path)
    return false
  }
  walk(value, visit, '', hostKeys)
  return paths
}

const disk = (source: object, type: string, rest: object = {}) => ({
  devices: { disks: [{ type, source, target: { dev: 'vda' }, ...rest }] },
})
const nic = (type: string, source?: object, rest: object = {}) => ({
  devices: { interfaces: [{ type, ...(source ? { source } : {}), ...rest }] },
})
const serial = (type: string, source?: object, rest: object = {}) => ({
  devices: { serials: [{ type, ...(source ? { source } : {}), ...rest }] },
})
const device = (list: string, item: object) => ({ devices: { [list]: [item] } })

describe('fields that reach the host are for cluster presets only', () => {
  test.each([
    row('an emulator', { devices: { emulator: '/bin/sh' } }, 'devices.emulator'),
    row('a file', disk({ file: '/etc/shadow' }, 'file'), 'devices.disks[0].source.file'),
    row('a block device', disk({ dev: '/dev/sda' }, 'block'), 'devices.disks[0].source.dev'),
    row('a directory', disk({ dir: '/etc' }, 'dir'), 'devices.disks[0].source.dir'),
    row('a vhost-vDPA device', disk({ dev: '/dev/vhost-vdpa-0' }, 'vhostvdpa'), 'devices.disks[0].source.dev'),
    row(
      'a vhost-user socket',
      disk({ type: 'unix', path: '/run/vhost.sock' }, 'vhostuser'),
      'devices.disks[0].source.type',
      'devices.disks[0].source.path',
    ),
    row(
      'an NVMe controller',
      disk({ type: 'pci', namespace: 1, address: { domain: 0, bus: 1, slot: 0, function: 0 } }, 'nvme'),
      ...['type', 'namespace', 'address.domain', 'address.bus', 'address.slot', 'address.function'].map(
        (key) => `devices.disks[0].source.${key}`,
      ),
    ),
    row('a storage pool', disk({ pool: 'default', volume: 'x' }, 'volume'), 'devices.disks[0].source.pool'),
    row(
      'a storage server on a socket of the node',
      disk({ protocol: 'nbd', host: { transport: 'unix', socket: '/run/nbd.sock' } }, 'network'),
      'devices.disks[0].source.host.transport',
      'devices.disks[0].source.host.socket',
    ),
    row(
      'the same as a list',
      disk({ hosts: [{ socket: '/s' }] }, 'network'),
      'devices.disks[0].source.hosts[0].socket',
    ),
    row(
      'a file below an image',
      disk({ volume: 'x' }, 'volume', { backingStore: { type: 'file', source: { file: '/etc/shadow' } } }),
      'devices.disks[0].backingStore.source.file',
    ),
    row(
      'a data file of an image',
      disk({ volume: 'x', dataStore: { type: 'file', source: { file: '/etc/shadow' } } }, 'volume'),
      'devices.disks[0].source.dataStore.source.file',
    ),
    row(
      'the configuration of an RBD client',
      disk({ protocol: 'rbd', name: 'pool/image', config: { file: '/etc/ceph.conf' } }, 'network'),
      'devices.disks[0].source.config.file',
    ),
    row(
      'a private key',
      disk({ protocol: 'ssh', identity: { keyfile: '/root/.ssh/id' }, knownHosts: { path: '/k' } }, 'network'),
      'devices.disks[0].source.identity.keyfile',
      'devices.disks[0].source.knownHosts.path',
    ),
    row('a SCSI unit', disk({ volume: 'x' }, 'volume', { device: 'lun' }), 'devices.disks[0].device'),
    row('raw SCSI commands', disk({ volume: 'x' }, 'volume', { rawio: true }), 'devices.disks[0].rawio'),
    row(
      'a label of a source',
      disk({ volume: 'x', seclabel: { model: 'dac', relabel: false } }, 'volume'),
      'devices.disks[0].source.seclabel.model',
      'devices.disks[0].source.seclabel.relabel',
    ),
    row(
      'a bridge',
      nic('bridge', { bridge: 'br0' }),
      'devices.interfaces[0].type',
      'devices.interfaces[0].source.bridge',
    ),
    row(
      'macvtap',
      nic('direct', { dev: 'eth0', mode: 'bridge' }),
      'devices.interfaces[0].type',
      'devices.interfaces[0].source.dev',
      'devices.interfaces[0].source.mode',
    ),
    row(
      "libvirt's network",
      nic('network', { network: 'default' }),
      'devices.interfaces[0].type',
      'devices.interfaces[0].source.network',
    ),
    ...['vhostuser', 'hostdev', 'vdpa', 'internal', 'vds', 'server', 'client', 'mcast', 'udp'].map((type) =>
      row(`an interface of type ${type}`, nic(type), 'devices.interfaces[0].type'),
    ),
    row(
      'a script of an interface',
      nic('ethernet', undefined, { script: { path: '/bin/sh' }, downscript: { path: '/bin/sh' } }),
      'devices.interfaces[0].script.path',
      'devices.interfaces[0].downscript.path',
    ),
    row('a ROM', nic('user', undefined, { rom: { file: '/etc/shadow' } }), 'devices.interfaces[0].rom.file'),
    row(
      'device files and logs of an interface',
      nic('user', undefined, { backend: { type: 'passt', logFile: '/l', tap: '/t', vhost: '/v' } }),
      'devices.interfaces[0].backend.logFile',
      'devices.interfaces[0].backend.tap',
      'devices.interfaces[0].backend.vhost',
    ),
    row(
      'a network filter',
      nic('user', undefined, { filterref: { filter: 'clean-traffic' } }),
      'devices.interfaces[0].filterref.filter',
    ),
    ...['dev', 'file', 'pipe', 'tcp', 'udp'].map((type) =>
      row(`a character device of type ${type}`, serial(type), 'devices.serials[0].type'),
    ),
    row('a socket of a character device', serial('unix', { path: '/run/x.sock' }), 'devices.serials[0].source.path'),
    row('a terminal of the node', serial('pty', { path: '/dev/pts/0' }), 'devices.serials[0].source.path'),
    row(
      'a TCP connection',
      device('channels', { type: 'tcp', sources: [{ mode: 'connect', host: '10.0.0.1', service: '22' }] }),
      'devices.channels[0].type',
      'devices.channels[0].sources[0].host',
      'devices.channels[0].sources[0].service',
    ),
    row('a log', serial('pty', undefined, { log: { file: '/var/log/x' } }), 'devices.serials[0].log.file'),
    row('a redirected device over TCP', device('redirdevs', { bus: 'usb', type: 'tcp' }), 'devices.redirdevs[0].type'),
    row(
      'a device of the node',
      device('hostdevs', { mode: 'subsystem', type: 'pci', managed: true, source: { address: { bus: 1 } } }),
      ...['mode', 'type', 'managed', 'source.address.bus'].map((key) => `devices.hostdevs[0].${key}`),
    ),
    row(
      'a directory to share',
      device('filesystems', { type: 'mount', source: { dir: '/' }, target: { dir: 'root' } }),
      'devices.filesystems[0].type',
      'devices.filesystems[0].source.dir',
    ),
    row(
      'a directory in place of a volume',
      device('filesystems', { type: 'volume', source: { volume: 'data', dir: '/' }, target: { dir: 'root' } }),
      'devices.filesystems[0].source.dir',
    ),
    row(
      'a virtiofsd program',
      device('filesystems', { binary: { path: '/bin/sh' } }),
      'devices.filesystems[0].binary.path',
    ),
    row("the node's TPM", device('tpms', { backend: { type: 'passthrough' } }), 'devices.tpms[0].backend.type'),
    row(
      'an emulator of a TPM that runs already',
      device('tpms', { backend: { type: 'external', source: { type: 'unix', path: '/run/tpm' } } }),
      ...['type', 'source.type', 'source.path'].map((key) => `devices.tpms[0].backend.${key}`),
    ),
    row('a daemon for random numbers', device('rngs', { backend: { model: 'egd' } }), 'devices.rngs[0].backend.model'),
    row(
      'a device for random numbers',
      device('rngs', { backend: { model: 'random', value: '/dev/hwrng' } }),
      'devices.rngs[0].backend.value',
    ),
    row(
      'the sound of the node',
      device('audios', { id: 1, type: 'alsa', output: { dev: '/dev/dsp' } }),
      'devices.audios[0].type',
      'devices.audios[0].output.dev',
    ),
    row(
      'a sound file',
      device('audios', { id: 1, type: 'file', path: '/x' }),
      'devices.audios[0].type',
      'devices.audios[0].path',
    ),
    row(
      'an input device of the node',
      device('inputs', { type: 'evdev', source: { dev: '/dev/input/event0' } }),
      'devices.inputs[0].type',
      'devices.inputs[0].source.dev',
    ),
    row('a window on the node', device('graphics', { type: 'sdl' }), 'devices.graphics[0].type'),
    row(
      'a graphics card of the node',
      device('graphics', { type: 'spice', gl: { enable: true, rendernode: '/dev/dri/renderD128' } }),
      'devices.graphics[0].gl.enable',
      'devices.graphics[0].gl.rendernode',
    ),
    row(
      'a socket of a display server',
      device('graphics', { type: 'vnc', listens: [{ type: 'socket', socket: '/run/vnc' }] }),
      'devices.graphics[0].listens[0].socket',
    ),
    row(
      'shared memory',
      device('shmems', { name: 'x', model: { type: 'ivshmem-plain' }, server: { path: '/run/ivshmem' } }),
      ...['name', 'model.type', 'server.path'].map((key) => `devices.shmems[0].${key}`),
    ),
    row(
      'memory in a file',
      device('memories', { model: 'nvdimm', source: { path: '/dev/dax0.0', nodemask: '0' } }),
      'devices.memories[0].source.path',
      'devices.memories[0].source.nodemask',
    ),
    row('an enclave', device('memories', { model: 'sgx-epc' }), 'devices.memories[0].model'),
    row('a smart card of the node', device('smartcards', { mode: 'host' }), 'devices.smartcards[0].mode'),
    row(
      'a lease',
      device('leases', { lockspace: 'x', key: 'y' }),
      'devices.leases[0].lockspace',
      'devices.leases[0].key',
    ),
    row('a file for crash records', { devices: { pstore: { path: '/x' } } }, 'devices.pstore.path'),
    row('sockets to the node', { devices: { vsock: { model: 'virtio' } } }, 'devices.vsock'),
    row("QEMU's command line", { qemuCommandline: { args: [{ value: '-S' }] } }, 'qemuCommandline'),
    row('a loader', { os: { loader: { value: '/x' } } }, 'os.loader.value'),
    row('a variable store', { os: { nvram: { value: '/x' } } }, 'os.nvram.value'),
    row(
      'a kernel',
      { os: { kernel: '/k', initrd: '/i', dtb: '/d', shim: '/s' } },
      ...['kernel', 'initrd', 'dtb', 'shim'].map((key) => `os.${key}`),
    ),
    row('labels', { seclabels: [{ type: 'none' }] }, 'seclabels[0]'),
    row('a cgroup', { resource: { partition: '/machine' } }, 'resource'),
    row('NUMA nodes of the node', { numatune: { memory: { nodeset: '0' } } }, 'numatune'),
    row('CPUs of the node', { cputune: { vcpupins: [{ vcpu: 0, cpuset: '1' }] } }, 'cputune'),
    row('memory that is locked', { memoryBacking: { locked: {} } }, 'memoryBacking.locked'),
    row('limits of memory', { memtune: { hardLimit: { value: 1 } } }, 'memtune'),
    row('weights of block devices', { blkiotune: { weight: 500 } }, 'blkiotune'),
    row('CPUs of the node for all virtual ones', { vcpu: { cpuset: '0-3', value: 1 } }, 'vcpu.cpuset'),
    row('CPUs that numad chooses', { vcpu: { placement: 'auto', value: 1 } }, 'vcpu.placement'),
    row('performance counters', { perf: { events: [{ name: 'cmt', enabled: true }] } }, 'perf'),
    row('ids of the node', { idmap: { uids: [{ start: 0, target: 0, count: 1 }] } }, 'idmap'),
    row('SMBIOS tables of the node', { os: { smbios: { mode: 'host' } } }, 'os.smbios.mode'),
    row('an ACPI table', { os: { acpi: { tables: [{ type: 'slic', value: '/x' }] } } }, 'os.acpi.tables[0]'),
    row(
      'a file for the firmware',
      { sysinfos: [{ type: 'fwcfg', entries: [{ name: 'opt/x', file: '/etc/shadow' }] }] },
      'sysinfos[0].entries[0].file',
    ),
    row(
      'a disk with variables of the firmware',
      { os: { nvram: { type: 'block', source: { dev: '/dev/sda' } } } },
      'os.nvram.type',
      'os.nvram.source.dev',
    ),
    row('a fabric', { resource: { fibrechannel: { appid: 'x' } } }, 'resource'),
    row('capabilities of QEMU', { qemuCapabilities: { adds: [{ capability: 'x' }] } }, 'qemuCapabilities'),
    row('properties of devices', { qemuOverride: { devices: [{ alias: 'ua-x' }] } }, 'qemuOverride'),
    row('what QEMU does when it is old', { qemuDeprecation: { behavior: 'none' } }, 'qemuDeprecation'),
    row('memory of the guest in files', { memoryBacking: { source: { type: 'file' } } }, 'memoryBacking.source.type'),
  ])('$name', ({ value, paths }) => {
    expect(validateDomain(value)).toEqual([])
    expect(hostReaching(value)).toEqual(paths)
  })
})

describe('fields that users can write', () => {
  test.each<readonly [string, object]>([
    ['a volume of the VM', disk({ volume: 'x' }, 'volume')],
    [
      'an empty drive',
      { devices: { disks: [{ type: 'file', device: 'cdrom', target: { dev: 'sda', bus: 'sata' } }] } },
    ],
    [
      'an iSCSI unit',
      disk(
        { protocol: 'iscsi', name: 'iqn.2017-01.io.kubevirt:sn.42/2', host: { name: 'demo', port: '3260' } },
        'network',
      ),
    ],
    ['the network of the pod', nic('user', undefined, { backend: { type: 'passt' }, model: { type: 'virtio' } })],
    ['a tap device in the pod', nic('ethernet', undefined, { target: { dev: 'tap0', managed: false } })],
    ['a console', serial('pty')],
    [
      'the channel of the guest agent',
      device('channels', { type: 'unix', target: { type: 'virtio', name: 'org.qemu.guest_agent.0' } }),
    ],
    ['VNC on the pod', device('graphics', { type: 'vnc', listens: [{ type: 'address', address: '0.0.0.0' }] })],
    ['random numbers', device('rngs', { model: 'virtio', backend: { model: 'random' } })],
    ['an emulated TPM', device('tpms', { model: 'tpm-crb', backend: { type: 'emulator', version: '2.0' } })],
    ['a tablet', device('inputs', { type: 'tablet', bus: 'usb' })],
    ['sound in the viewer', device('audios', { id: 1, type: 'spice' })],
    ['a watchdog', device('watchdogs', { model: 'i6300esb', action: 'reset' })],
    ['firmware that is chosen automatically', { os: { firmware: 'efi', type: { machine: 'q35', os: 'hvm' } } }],
  ])('%s', (_, value) => {
    expect(validateDomain(value)).toEqual([])
    expect(hostReaching(value)).toEqual([])
  })
})

test('every path reaches the host, itself or by a parent', () => {
  const free: string[] = []
  const seen = new Set<Element>()
  const visit = (element: Element, path: string): void => {
    if (seen.has(element)) return
    seen.add(element)
    for (const [key, field] of Object.entries(element.fields)) {
      if (field.reach === 'host') continue
      const below = path === '' ? key : `${path}.${key}`
      if ('scalar' in field && field.scalar.kind === 'path') free.push(below)
      if (field.at === 'child' || field.at === 'children') visit(elementOf(field), below)
    }
  }
  visit(domain, '')
  expect(free).toEqual([])
})
