import { expect, test } from 'vitest'
import { validPartOf, parseVirtualMachine } from '../api/virtual-machine.ts'
import { createCandidates } from '../presets/candidates.ts'
import { bundledCapabilities as capabilities } from './capabilities.ts'
import { complete } from './complete.ts'

/** All causes, combined as the webhook and the command line do. */
function causesOf(domain: object, more: object = {}): string[] {
  const value = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm', namespace: 'default' },
    spec: {
      domain: { type: 'kvm', memory: { unit: 'GiB', value: 1 }, os: { type: { os: 'hvm' } }, ...domain },
      ...more,
    },
  }
  const parsed = parseVirtualMachine(value)
  const shape = 'causes' in parsed ? parsed.causes : []
  const rest = 'vm' in parsed ? { vm: parsed.vm, without: [] } : validPartOf(value)
  const outcome =
    rest &&
    complete(rest.vm, {
      presets: createCandidates([]),
      namespace: { name: 'default', labels: {} },
      capabilities,
      entropy: { uid: 'request' },
      without: rest.without,
    })
  const causes = outcome?.outcome === 'refused' ? outcome.causes : []
  return [...shape, ...causes].map(({ rule, field }) => `${rule} ${field}`)
}

const twice = [{ target: { dev: 'vda' } }, { target: { dev: 'vda' } }].map((disk) => ({ device: 'cdrom', ...disk }))

const rows: [string, object, string[]][] = [
  [
    'reports a typing mistake together with a broken rule',
    { tittle: 'x', os: { type: { os: 'hvm', machine: 'q53' } } },
    ['unknown-field spec.domain.tittle', 'os-type spec.domain.os.type.machine'],
  ],
  [
    'reports nothing else about a device with a fault',
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'qemu-xhci', ports: 16, modle: 'x' }], hubs: [] } },
    ['unknown-field spec.domain.devices.controllers[0].modle'],
  ],
  [
    'reports other causes about other devices',
    {
      devices: {
        controllers: [{ type: 'usb', index: 0, model: 'qemu-xhci', ports: 16 }],
        inputs: [{ type: 'tablt' }],
      },
    },
    ['enumeration spec.domain.devices.inputs[0].type', 'usb-ports spec.domain.devices.controllers[0].ports'],
  ],
  [
    'does not refuse the CPU because of a missing accelerator',
    { type: 'kvmm', cpu: { mode: 'host-passthrough' } },
    ['enumeration spec.domain.type'],
  ],
  [
    'does not refuse the topology because of an invalid number of CPUs',
    { vcpu: { value: 'four' }, cpu: { topology: { sockets: 1, cores: 4, threads: 1 } } },
    ['value spec.domain.vcpu.value'],
  ],
  [
    'checks reach as well',
    { titel: 'x', devices: { emulator: '/usr/bin/evil' } },
    ['unknown-field spec.domain.titel', 'host-reach spec.domain.devices.emulator'],
  ],
  [
    'reports only the rules if there are no faults',
    { devices: { disks: twice } },
    [
      'disk-target-unique spec.domain.devices.disks[1].target.dev',
      'disk-bus spec.domain.devices.disks[0].target.bus',
      'disk-bus spec.domain.devices.disks[1].target.bus',
    ],
  ],
]

test.each(rows)('%s', (_, domain, causes) => {
  expect(causesOf(domain)).toEqual(causes)
})

test('an invalid volume suppresses the rules about volumes', () => {
  const devices = { disks: [{ type: 'volume', source: { volume: 'root' }, target: { dev: 'vda' } }] }
  expect(causesOf({ devices }, { volumes: [{ name: 'ro ot', emptyDisk: { capacity: '1Gi' } }] })).toEqual([
    'volume-name spec.volumes[0].name',
  ])
})
