import { expect, test } from 'vitest'
import { completedByAnnotation, faultlessMachine, parseMachine } from '../../api/machine.ts'
import { isRecord } from '../../api/schema.ts'
import { readDomain } from '../../api/domain/xml.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete } from '../../completion/complete.ts'
import { rules } from '../../completion/defaults/defaults.ts'
import { createCandidates } from '../../presets/candidates.ts'

/** What reaches the host, and does not look like it. The JSON is text, as it comes: with `__proto__` as a key. */
const rows: [string, string][] = [
  ['an emulator of one’s own', '{"devices":{"emulator":"/tmp/evil"}}'],
  ['an emulator under the prototype', '{"__proto__":{"devices":{"emulator":"/tmp/evil"}}}'],
  ['an emulator under the prototype of devices', '{"devices":{"__proto__":{"emulator":"/tmp/evil"}}}'],
  ['arguments of QEMU', '{"qemuCommandline":{"args":[{"value":"-drive"},{"value":"file=/etc/shadow"}]}}'],
  ['arguments of QEMU under libvirt’s own name', '{"qemu:commandline":{"args":[{"value":"-drive"}]}}'],
  ['arguments of QEMU in look-alike letters', '{"qemuСommandline":{"args":[{"value":"-drive"}]}}'],
  ['properties of a device', '{"qemuOverride":{"devices":[{"alias":"x","frontend":{"properties":[{"name":"a"}]}}]}}'],
  [
    'a file of the host',
    '{"devices":{"disks":[{"type":"file","source":{"file":"/etc/shadow"},"target":{"dev":"vda"}}]}}',
  ],
  [
    'a relative path',
    '{"devices":{"disks":[{"type":"file","source":{"file":"../../etc/shadow"},"target":{"dev":"vda"}}]}}',
  ],
  ['a type that is the default', '{"devices":{"disks":[{"source":{"file":"/etc/shadow"},"target":{"dev":"vda"}}]}}'],
  [
    'a file beside a volume',
    '{"devices":{"disks":[{"type":"volume","source":{"volume":"root","file":"/etc/shadow"},"target":{"dev":"vda"}}]}}',
  ],
  [
    'a volume with a path for a name',
    '{"devices":{"disks":[{"type":"volume","source":{"volume":"../../etc"},"target":{"dev":"vda"}}]}}',
  ],
  [
    'a pool of libvirt’s',
    '{"devices":{"disks":[{"type":"volume","source":{"pool":"default","volume":"a"},"target":{"dev":"vda"}}]}}',
  ],
  [
    'a file below an image',
    '{"devices":{"disks":[{"device":"cdrom","target":{"dev":"sda","bus":"sata"},"backingStore":{"type":"file","source":{"file":"/etc/shadow"}}}]}}',
  ],
  [
    'a raw SCSI unit',
    '{"devices":{"disks":[{"type":"block","device":"lun","source":{"dev":"/dev/sda"},"target":{"dev":"sda","bus":"scsi"}}]}}',
  ],
  ['a bridge', '{"devices":{"interfaces":[{"type":"bridge","source":{"bridge":"br0"}}]}}'],
  ['a bridge in capitals', '{"devices":{"interfaces":[{"type":"BRIDGE","source":{"bridge":"br0"}}]}}'],
  ['a device of the host', '{"devices":{"hostdevs":[{"type":"pci","source":{"address":{"bus":1}}}]}}'],
  ['a file as a serial port', '{"devices":{"serials":[{"type":"file","source":{"path":"/etc/cron.d/x"}}]}}'],
  ['a log of a serial port', '{"devices":{"serials":[{"type":"pty","log":{"file":"/etc/cron.d/x"}}]}}'],
  [
    'a socket as a channel',
    '{"devices":{"channels":[{"type":"unix","source":{"path":"/run/docker.sock"},"target":{"type":"virtio"}}]}}',
  ],
  ['a directory', '{"devices":{"filesystems":[{"source":{"dir":"/"},"target":{"dir":"root"}}]}}'],
  ['a kernel of the host', '{"os":{"type":{"os":"hvm"},"kernel":"/boot/vmlinuz"}}'],
  ['a firmware image', '{"os":{"type":{"os":"hvm"},"loader":{"type":"rom","value":"/etc/shadow"}}}'],
  ['a variable store', '{"os":{"type":{"os":"hvm"},"nvram":{"value":"/etc/shadow"}}}'],
  ['an ACPI table', '{"os":{"type":{"os":"hvm"},"acpi":{"tables":[{"type":"raw","value":"/etc/shadow"}]}}}'],
  ['a file of fw_cfg', '{"sysinfos":[{"type":"fwcfg","entries":[{"name":"opt/a/b","file":"/etc/shadow"}]}]}'],
  ['a random device', '{"devices":{"rngs":[{"model":"virtio","backend":{"model":"random","value":"/dev/sda"}}]}}'],
  ['an option ROM', '{"devices":{"interfaces":[{"type":"user","rom":{"file":"/etc/shadow"}}]}}'],
  ['a script of an interface', '{"devices":{"interfaces":[{"type":"ethernet","script":{"path":"/tmp/evil"}}]}}'],
  ['a list that is an object', '{"devices":{"disks":{"0":{"type":"file","source":{"file":"/etc/shadow"}}}}}'],
]

test.each(rows)('%s is refused', (_, domain) => {
  const value: unknown = JSON.parse(
    `{"apiVersion":"virtset.io/v1alpha1","kind":"VirtualMachine","metadata":{"name":"vm"},"spec":{"domain":${domain}}}`,
  )
  expect(causesOf(value).length).toBeGreaterThan(0)
  expect({}).not.toHaveProperty('devices')
  expect({}).not.toHaveProperty('emulator')
})

test('what was imported from XML is judged like any other', () => {
  const read = readDomain(
    `<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"><memory>65536</memory><os><type>hvm</type></os>
      <devices><emulator>/tmp/evil</emulator></devices>
      <qemu:commandline><qemu:arg value="-drive"/></qemu:commandline></domain>`,
  )
  const domain = 'domain' in read ? read.domain : {}
  const machine = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm' },
    spec: { domain },
  }
  expect(causesOf(machine).filter((rule) => rule === 'host-reach').length).toBeGreaterThanOrEqual(2)
})

test.each([...rules.map(({ name }) => `=${name}`), ['', 'grant', 'r'], ['default', 'own', 'r'], 'user'])(
  'who says that all of it came from %j is not believed',
  (by) => {
    const claims = [0, { spec: 0 }, { spec: { domain: { devices: { emulator: 0 } } } }]
    const judged = claims.map((at) => {
      const annotations = { [completedByAnnotation]: JSON.stringify({ v: 1, by: [by], at }) }
      const spec = { domain: { type: 'kvm', devices: { emulator: '/tmp/evil' } } }
      return causesOf({
        apiVersion: 'virtset.io/v1alpha1',
        kind: 'VirtualMachine',
        metadata: { name: 'vm', annotations },
        spec,
      })
    })
    expect(judged).toEqual(claims.map(() => expect.arrayContaining(['host-reach'])))
  },
)

test('a fault elsewhere hides nothing that reaches the host', () => {
  const devices = { emulator: '/tmp/evil' }
  const domain = { tpye: 'kvm', devices }
  const machine = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm' },
    spec: { domain },
  }
  expect(causesOf(machine)).toEqual(expect.arrayContaining(['unknown-field', 'host-reach']))
})

/** The ids of the rules that admission would refuse it by; memory and type are not what this is about. */
function causesOf(value: unknown): string[] {
  const parsed = parseMachine(value)
  const shape = 'causes' in parsed ? parsed.causes.map(({ rule }) => rule) : []
  const rest = 'machine' in parsed ? { machine: parsed.machine, without: [] } : faultlessMachine(value)
  if (rest === undefined || !isRecord(value)) return shape
  const outcome = complete(rest.machine, {
    presets: createCandidates([]),
    namespace: { name: 'default', labels: {} },
    capabilities,
    entropy: { uid: 'request' },
    without: rest.without,
  })
  const causes = outcome.outcome === 'refused' ? outcome.causes.map(({ rule }) => rule) : []
  return [...shape, ...causes.filter((rule) => !['memory', 'domain-type', 'os-type'].includes(rule))]
}
