import { describe, expect, test } from 'vitest'
import { completedByAnnotation, validPartOf, parseVirtualMachine } from '../../api/virtual-machine.ts'
import { isRecord } from '../../api/schema.ts'
import { readDomain, writeDomain } from '../../api/domain/xml.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete } from '../../completion/complete.ts'
import { rules } from '../../completion/defaults/defaults.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createEngine } from '../../webhooks/admission/engine.ts'
import { cachesWithout } from '../../webhooks/admission/caches.ts'
import { createHandlers } from '../../webhooks/admission/handler.ts'
import { parseAdmissionReview } from '../../webhooks/admission/request.ts'

/** Domains that reach the host in hidden ways, as JSON text, because `__proto__` is a key. */
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
  ['a bridge in full-width letters', '{"devices":{"interfaces":[{"type":"ｂｒｉｄｇｅ","source":{"bridge":"br0"}}]}}'],
  [
    'a file with a ligature',
    '{"devices":{"disks":[{"type":"ﬁle","source":{"file":"/etc/shadow"},"target":{"dev":"vda"}}]}}',
  ],
  ['a key with a space of no width', '{"devices":{"emulator\u200b":"/tmp/evil"}}'],
  ['a key in capitals', '{"devices":{"Emulator":"/tmp/evil"}}'],
  ['a key as a path', '{"devices.emulator":"/tmp/evil"}'],
  ['an emulator after a harmless one', '{"devices":{"emulator":"/usr/bin/qemu"},"devices":{"emulator":"/tmp/evil"}}'],
  ['an emulator under the constructor', '{"constructor":{"prototype":{"devices":{"emulator":"/tmp/evil"}}}}'],
  ['a number beyond all', '{"memory":{"unit":"KiB","value":1e400}}'],
  ['a number that is not exact', '{"memory":{"unit":"KiB","value":9007199254740993}}'],
  ['a number with four hundred digits', `{"memory":{"unit":"KiB","value":"${'9'.repeat(400)}"}}`],
  ['a character that ends a string in C', '{"devices":{"emulator":"/usr/bin/qemu\\u0000/../../tmp/evil"}}'],
  [
    'XML that closes its parent element',
    '{"metadata":"</metadata><devices><emulator>/tmp/evil</emulator></devices><metadata>"}',
  ],
  [
    'XML that fetches a file',
    '{"metadata":"<!DOCTYPE a [<!ENTITY x SYSTEM \\"file:///etc/shadow\\">]><a xmlns=\\"urn:a\\">&x;</a>"}',
  ],
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

const volumes: [string, string][] = [
  ['a name that is the folder itself', '{"name":".","emptyDisk":{"capacity":"1Gi"}}'],
  ['a name that leads up', '{"name":"..","emptyDisk":{"capacity":"1Gi"}}'],
  ['a name that leads elsewhere', '{"name":"a/../../private","emptyDisk":{"capacity":"1Gi"}}'],
  ['a name that looks like a path', '{"name":"a∕b","emptyDisk":{"capacity":"1Gi"}}'],
  ['a name with two dots that are one letter', '{"name":"‥","emptyDisk":{"capacity":"1Gi"}}'],
  ['a name with an end of line', '{"name":"a\\n","emptyDisk":{"capacity":"1Gi"}}'],
  ['a claim of another place', '{"name":"a","persistentVolumeClaim":{"claimName":"../kube-system/a"}}'],
  ['a kind of a pod', '{"name":"a","hostPath":{"path":"/"}}'],
  [
    'a pod’s kind of volume beside one of virtset’s',
    '{"name":"a","emptyDisk":{"capacity":"1Gi"},"hostPath":{"path":"/"}}',
  ],
  [
    'a kind of a pod under the prototype',
    '{"name":"a","__proto__":{"hostPath":{"path":"/"}},"emptyDisk":{"capacity":"1Gi"}}',
  ],
]

test.each(volumes)('a volume with %s is refused', (_, volume) => {
  const disk = '{"type":"volume","source":{"volume":"a"},"target":{"dev":"vda"}}'
  const value: unknown = JSON.parse(
    `{"apiVersion":"virtset.io/v1alpha1","kind":"VirtualMachine","metadata":{"name":"vm"},"spec":{"domain":{"devices":{"disks":[${disk}]}},"volumes":[${volume}]}}`,
  )
  const about = parseVirtualMachine(value)
  expect('causes' in about ? about.causes.map(({ field }) => field) : []).toEqual([
    expect.stringMatching(/^spec\.volumes\[0\]/),
  ])
})

/** Every text of a domain that can contain anything: in the XML for libvirt it is only text. */
test.each([
  '</title><devices><emulator>/tmp/evil</emulator></devices>',
  '"/><emulator>/tmp/evil</emulator>',
  ']]><emulator>/tmp/evil</emulator>',
  '&lt;emulator&gt;',
  "' onload='",
])('%s is only text', (text) => {
  const domain = { title: text, description: text, devices: { disks: [{ serial: text, target: { dev: 'vda' } }] } }
  const read = readDomain(writeDomain(domain))
  expect(read).toEqual({ domain })
})

describe('through', () => {
  const spec = { domain: { type: 'kvm', memory: { unit: 'GiB', value: 1 }, os: { type: { os: 'hvm' } } } }
  const evil = { ...spec, domain: { ...spec.domain, devices: { emulator: '/tmp/evil' } } }
  const metadata = { name: 'vm', namespace: 'default' }
  const labels = { app: 'web' }
  const handlers = createHandlers(
    createEngine(cachesWithout(systemClock), () => Promise.resolve(false)),
    { controllers: [] },
  )
  const send = async (path: 'mutate' | 'validate', kind: string, object: object, oldObject?: object) => {
    const request = { uid: 'u', kind: { kind }, name: 'vm', namespace: 'default', object, oldObject }
    const operation = oldObject === undefined ? 'CREATE' : 'UPDATE'
    const body = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: { ...request, operation } }
    const parsed = parseAdmissionReview(JSON.parse(JSON.stringify(body)))
    if ('problem' in parsed) throw new Error(parsed.problem)
    return handlers[path](parsed.request)
  }
  const completedBy = (text: string) => ({ ...metadata, annotations: { [completedByAnnotation]: text } })
  const template = { metadata: { labels }, spec: evil }
  const selector = { matchLabels: labels }

  test.each<[string, string, object, object | undefined]>([
    ['a new VM', 'VirtualMachine', { metadata, spec: evil }, undefined],
    ['an update', 'VirtualMachine', { metadata, spec: evil }, { metadata: completedBy('{"v":1,"by":[]}'), spec }],
    [
      'an update that claims that a preset overrode it',
      'VirtualMachine',
      {
        metadata: completedBy('{"v":1,"by":["user"],"over":{"spec":{"domain":{"devices":{"emulator":[0]}}}}}'),
        spec: evil,
      },
      { metadata: completedBy('{"v":1,"by":[]}'), spec },
    ],
    [
      'an update that removes the provenance',
      'VirtualMachine',
      { metadata, spec: evil },
      { metadata: completedBy('{"v":1,"by":[]}'), spec },
    ],
    ['the template of a config', 'VirtualMachineConfig', { metadata, spec: { template } }, undefined],
    [
      'a new template of a config',
      'VirtualMachineConfig',
      { metadata, spec: { template } },
      { metadata, spec: { template: { spec } } },
    ],
    ['the template of a group', 'VirtualMachineGroup', { metadata, spec: { selector, template } }, undefined],
    [
      'a template that claims to be completed',
      'VirtualMachineConfig',
      { metadata, spec: { template: { metadata: completedBy('{"v":1,"by":["=uuid"],"at":0}'), spec: evil } } },
      undefined,
    ],
    [
      'a preset of a namespace',
      'VirtualMachinePreset',
      { kind: 'VirtualMachinePreset', metadata, spec: { selector, domain: evil.domain } },
      undefined,
    ],
    [
      'a preset of the cluster without the right to',
      'ClusterVirtualMachinePreset',
      { kind: 'ClusterVirtualMachinePreset', metadata: { name: 'vm' }, spec: { selector, domain: evil.domain } },
      undefined,
    ],
    [
      'the every-item key of a preset',
      'VirtualMachinePreset',
      {
        kind: 'VirtualMachinePreset',
        metadata,
        spec: {
          selector,
          domain: { devices: { disks: [{ target: { dev: '*' }, source: { file: '/etc/shadow' }, type: 'file' }] } },
        },
      },
      undefined,
    ],
  ])('%s is refused, and changes no VM', async (_, kind, object, oldObject) => {
    for (const path of ['mutate', 'validate'] as const) {
      const result = await send(path, kind, { apiVersion: 'virtset.io/v1alpha1', kind, ...object }, oldObject)
      expect(result).toMatchObject({ allowed: false })
    }
  })

  test('an update of a VM that was never completed cannot change it', async () => {
    const stored = { metadata, spec }
    expect(await send('validate', 'VirtualMachine', { metadata, spec: evil }, stored)).toMatchObject({
      allowed: false,
    })
  })
})

test('a domain imported from XML is checked like any other', () => {
  const read = readDomain(
    `<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"><memory>65536</memory><os><type>hvm</type></os>
      <devices><emulator>/tmp/evil</emulator></devices>
      <qemu:commandline><qemu:arg value="-drive"/></qemu:commandline></domain>`,
  )
  const domain = 'domain' in read ? read.domain : {}
  const vm = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm' },
    spec: { domain },
  }
  expect(causesOf(vm).filter((rule) => rule === 'host-reach').length).toBeGreaterThanOrEqual(2)
})

test.each([...rules.map(({ name }) => `=${name}`), ['', 'grant', 'r'], ['default', 'own', 'r'], 'user'])(
  'a claim that everything came from %j is not trusted',
  (by) => {
    const claims = [0, { spec: 0 }, { spec: { domain: { devices: { emulator: 0 } } } }]
    const results = claims.map((at) => {
      const annotations = { [completedByAnnotation]: JSON.stringify({ v: 1, by: [by], at }) }
      const spec = { domain: { type: 'kvm', devices: { emulator: '/tmp/evil' } } }
      return causesOf({
        apiVersion: 'virtset.io/v1alpha1',
        kind: 'VirtualMachine',
        metadata: { name: 'vm', annotations },
        spec,
      })
    })
    expect(results).toEqual(claims.map(() => expect.arrayContaining(['host-reach'])))
  },
)

test('a fault elsewhere does not hide a field that reaches the host', () => {
  const devices = { emulator: '/tmp/evil' }
  const domain = { tpye: 'kvm', devices }
  const vm = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm' },
    spec: { domain },
  }
  expect(causesOf(vm)).toEqual(expect.arrayContaining(['unknown-field', 'host-reach']))
})

/** The ids of the rules by which admission would refuse it, except those about memory and type. */
function causesOf(value: unknown): string[] {
  const parsed = parseVirtualMachine(value)
  const shape = 'causes' in parsed ? parsed.causes.map(({ rule }) => rule) : []
  const rest = 'vm' in parsed ? { vm: parsed.vm, without: [] } : validPartOf(value)
  if (rest === undefined || !isRecord(value)) return shape
  const outcome = complete(rest.vm, {
    presets: createCandidates([]),
    namespace: { name: 'default', labels: {} },
    capabilities,
    entropy: { uid: 'request' },
    without: rest.without,
  })
  const causes = outcome.outcome === 'refused' ? outcome.causes.map(({ rule }) => rule) : []
  return [...shape, ...causes.filter((rule) => !['memory', 'domain-type', 'os-type'].includes(rule))]
}
