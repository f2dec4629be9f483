import { attribute, child, children, content, element, leaf, leaves, present } from '../../api/domain/description.ts'
import { integer, mac, oneOf, unit, yesNo } from '../../api/domain/scalar.ts'
import { line } from '../../api/domain/text.ts'
import { templateStructure } from '../../presets/structure.ts'

const size = element(
  'A size.',
  { unit: attribute(unit, 'Unit.'), value: content(integer(), 'Amount.') },
  { whole: true, scale: { value: 'value', unit: 'unit', absent: 'KiB', to: 'KiB' } },
)

const host = element('A host.', { name: attribute(line(), 'Name.'), port: attribute(integer(), 'Port.') })

const disk = element(
  'A disk.',
  {
    type: attribute(oneOf('file', 'volume', 'network'), 'Type.'),
    driver: child(element('Driver.', { cache: attribute(line(), 'Cache.'), io: attribute(line(), 'I/O.') }), 'Driver.'),
    source: child(
      element('Source.', {
        file: attribute(line(), 'File.'),
        volume: attribute(line(), 'Volume.'),
        name: attribute(line(), 'Name.'),
        hosts: children('host', host, 'Hosts.', { single: 'host' }),
      }),
      'Source.',
    ),
    target: child(element('Target.', { dev: attribute(line(), 'Device.'), bus: attribute(line(), 'Bus.') }), 'Target.'),
    readonly: present('Whether it is read only.'),
    serial: leaf(line(), 'Serial.'),
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
  alias: child(element('Alias.', { name: attribute(line(), 'Name.') }), 'Alias.'),
  mac: child(element('MAC.', { address: attribute(mac, 'Address.') }), 'MAC.'),
  model: child(element('Model.', { type: attribute(line(), 'Type.') }), 'Model.'),
})

const clock = element(
  'The clock.',
  {
    offset: attribute(oneOf('utc', 'timezone', 'variable'), 'Offset.'),
    timezone: attribute(line(), 'Zone.'),
    adjustment: attribute(integer(), 'Adjustment.'),
    timers: children(
      'timer',
      element('A timer.', { name: attribute(line(), 'Name.'), present: attribute(yesNo, 'Present.') }),
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

/** A domain with one of each kind of field that merging distinguishes. */
export const smallDomain = element('A domain.', {
  type: attribute(oneOf('qemu', 'kvm'), 'Type.'),
  title: leaf(line(), 'Title.'),
  memory: child(size, 'Memory.'),
  vcpu: child(element('CPUs.', { value: content(integer(), 'Count.'), cpuset: attribute(line(), 'Set.') }), 'CPUs.'),
  features: child(element('Features.', { acpi: present('ACPI.'), apic: present('APIC.') }), 'Features.'),
  clock: child(clock, 'Clock.'),
  boots: leaves('boot', line(), 'Boot order.', { whole: true }),
  words: leaves('word', line(), 'Words in any order.'),
  devices: child(
    element('Devices.', {
      disks: children('disk', disk, 'Disks.', { key: [['target.dev']] }),
      interfaces: children('interface', nic, 'Interfaces.', { key: [['alias.name'], ['mac.address']] }),
      serials: children(
        'serial',
        element(
          'A serial port.',
          { type: attribute(line(), 'Type.'), log: attribute(line(), 'Log.') },
          { union: { by: 'type', owns: [] } },
        ),
        'Serial ports.',
      ),
      videos: children(
        'video',
        element('A video device.', {
          model: child(
            element('Model.', { type: attribute(line(), 'Type.'), vram: attribute(integer(), 'Memory.') }),
            'Model.',
          ),
        }),
        'Video devices.',
      ),
    }),
    'Devices.',
  ),
})

export const smallStructure = templateStructure(smallDomain)
