import { attribute, child, children, content, element, leaf, leaves, present } from '../../api/domain/description.ts'
import { integer, mac, oneOf, text, unit, yesNo } from '../../api/domain/scalar.ts'
import { machineStructure } from '../../presets/structure.ts'

const size = element(
  'A size.',
  { unit: attribute(unit, 'Unit.'), value: content(integer(), 'Amount.') },
  { whole: true, scale: { value: 'value', unit: 'unit', absent: 'KiB', to: 'KiB' } },
)

const host = element('A host.', { name: attribute(text(), 'Name.'), port: attribute(integer(), 'Port.') })

const disk = element(
  'A disk.',
  {
    type: attribute(oneOf('file', 'volume', 'network'), 'Type.'),
    driver: child(element('Driver.', { cache: attribute(text(), 'Cache.'), io: attribute(text(), 'I/O.') }), 'Driver.'),
    source: child(
      element('Source.', {
        file: attribute(text(), 'File.'),
        volume: attribute(text(), 'Volume.'),
        name: attribute(text(), 'Name.'),
        hosts: children('host', host, 'Hosts.', { single: 'host' }),
      }),
      'Source.',
    ),
    target: child(element('Target.', { dev: attribute(text(), 'Device.'), bus: attribute(text(), 'Bus.') }), 'Target.'),
    readonly: present('Whether it is read only.'),
    serial: leaf(text(), 'Serial.'),
  },
  {
    union: {
      by: 'type',
      owns: ['source'],
      branches: {
        file: ['source.file'],
        volume: ['source.volume'],
        network: ['source.name', 'source.hosts', 'source.host'],
      },
    },
  },
)

const nic = element('An interface.', {
  alias: child(element('Alias.', { name: attribute(text(), 'Name.') }), 'Alias.'),
  mac: child(element('MAC.', { address: attribute(mac, 'Address.') }), 'MAC.'),
  model: child(element('Model.', { type: attribute(text(), 'Type.') }), 'Model.'),
})

const clock = element(
  'The clock.',
  {
    offset: attribute(oneOf('utc', 'timezone', 'variable'), 'Offset.'),
    timezone: attribute(text(), 'Zone.'),
    adjustment: attribute(integer(), 'Adjustment.'),
    timers: children(
      'timer',
      element('A timer.', { name: attribute(text(), 'Name.'), present: attribute(yesNo, 'Present.') }),
      'Timers.',
      { key: [['name']] },
    ),
  },
  {
    union: {
      by: 'offset',
      owns: ['timezone', 'adjustment'],
      branches: { utc: ['adjustment'], timezone: ['timezone'], variable: ['adjustment'] },
    },
  },
)

/** A domain with one of each thing that merging knows. */
export const smallDomain = element('A domain.', {
  type: attribute(oneOf('qemu', 'kvm'), 'Type.'),
  title: leaf(text(), 'Title.'),
  memory: child(size, 'Memory.'),
  vcpu: child(element('CPUs.', { value: content(integer(), 'Count.'), cpuset: attribute(text(), 'Set.') }), 'CPUs.'),
  features: child(element('Features.', { acpi: present('ACPI.'), apic: present('APIC.') }), 'Features.'),
  clock: child(clock, 'Clock.'),
  boots: leaves('boot', text(), 'Boot order.'),
  devices: child(
    element('Devices.', {
      disks: children('disk', disk, 'Disks.', { key: [['target.dev']] }),
      interfaces: children('interface', nic, 'Interfaces.', { key: [['alias.name'], ['mac.address']] }),
      serials: children(
        'serial',
        element(
          'A serial port.',
          { type: attribute(text(), 'Type.'), log: attribute(text(), 'Log.') },
          { union: { by: 'type', owns: [] } },
        ),
        'Serial ports.',
      ),
      videos: children(
        'video',
        element('A video device.', {
          model: child(
            element('Model.', { type: attribute(text(), 'Type.'), vram: attribute(integer(), 'Memory.') }),
            'Model.',
          ),
        }),
        'Video devices.',
      ),
    }),
    'Devices.',
  ),
})

export const smallStructure = machineStructure(smallDomain)
