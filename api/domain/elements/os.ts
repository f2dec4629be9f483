import { attribute, child, children, content, element, leaf } from '../description.ts'
import { diskSource } from './disk-source.ts'
import { integer, oneOf, path, yesNo } from '../scalar.ts'
import { identifier, line, word } from '../text.ts'

const host = { reach: 'host' } as const

const type = element('The kind of machine that the guest boots on.', {
  arch: attribute(word, 'The architecture: `x86_64` or `i686`.'),
  machine: attribute(identifier, 'The machine type: `q35`, `pc`, or one of their versions such as `pc-q35-10.0`.'),
  os: content(oneOf('hvm'), '`hvm`: an unmodified operating system.'),
})

const feature = element('A feature of the firmware.', {
  enabled: attribute(yesNo, 'Whether the firmware must have or must not have the feature.'),
  name: attribute(oneOf('enrolled-keys', 'secure-boot'), 'The feature.'),
})

const firmwareSelection = element('Requirements for automatic firmware selection.', {
  features: children('feature', feature, 'Features that the firmware must have or must not have.', { key: [['name']] }),
})

const format = oneOf('raw', 'qcow2')

const loader = element('The firmware.', {
  readonly: attribute(yesNo, 'Whether the guest cannot write to it.', { ofGrant: ['true'] }),
  secure: attribute(yesNo, 'Whether it enforces Secure Boot.'),
  type: attribute(oneOf('rom', 'pflash'), 'How it is mapped.', { ofGrant: ['rom'] }),
  stateless: attribute(yesNo, 'Whether it needs no variable store.'),
  format: attribute(format, 'The format of the image.'),
  value: content(path, 'The image.', host),
})

const nvram = element('The variable store of the firmware.', {
  type: attribute(
    oneOf('file', 'block', 'dir', 'network', 'nvme', 'vhostuser', 'vhostvdpa', 'volume'),
    'The kind of source.',
    host,
  ),
  template: attribute(path, 'The image that the store is created from.', host),
  templateFormat: attribute(format, 'The format of the template.'),
  format: attribute(format, 'The format of the store.'),
  value: content(path, 'The file.', host),
  source: child(diskSource, 'The location of the store, if not a file.'),
})

const table = element('One ACPI table.', {
  type: attribute(oneOf('slic', 'msdm', 'raw', 'rawset'), 'The kind of table.'),
  value: content(path, 'The file.', host),
})

const acpi = element('ACPI tables that the guest gets in addition to the usual ones.', {
  tables: children('table', table, 'Each table.', host),
})

const boot = element('A kind of device to boot from.', {
  dev: attribute(oneOf('fd', 'hd', 'cdrom', 'network'), 'The kind.'),
})

const bootmenu = element('The menu of the firmware.', {
  enable: attribute(yesNo, 'Whether it is shown.'),
  timeout: attribute(integer({ min: 0, max: 65_535 }), 'The timeout in milliseconds.'),
})

const smbios = element('Where the SMBIOS tables come from.', {
  mode: attribute(oneOf('emulate', 'host', 'sysinfo'), "Generated, the node's, or those of `sysinfos`.", {
    reachOf: { host: 'host' },
  }),
})

const bios = element('Settings of the firmware.', {
  useserial: attribute(yesNo, 'Whether its messages are written to a serial port.'),
  rebootTimeout: attribute(integer({ min: -1, max: 32_767 }), 'Milliseconds until it retries to boot; -1: never.'),
})

export const os = element('How the guest boots.', {
  firmware: attribute(oneOf('bios', 'efi'), 'The kind of firmware, chosen automatically.'),
  type: child(type, 'Architecture and machine type.'),
  firmwareSelection: child(firmwareSelection, 'Requirements for automatic firmware selection.', { xml: 'firmware' }),
  loader: child(loader, 'The firmware, if it is not chosen automatically.'),
  nvram: child(nvram, 'The variable store of the firmware.'),
  kernel: leaf(path, 'A kernel to boot without any loader.', host),
  initrd: leaf(path, 'Its initial RAM disk.', host),
  cmdline: leaf(line(4096), 'Its command line.'),
  shim: leaf(path, 'The shim that starts the kernel under Secure Boot.', host),
  dtb: leaf(path, 'The device tree.', host),
  acpi: child(acpi, 'ACPI tables.'),
  boots: children(
    'boot',
    boot,
    'Kinds of devices to boot from, in this order; `boot.order` of a device is more precise.',
    {
      whole: true,
    },
  ),
  bootmenu: child(bootmenu, 'The menu of the firmware.'),
  smbios: child(smbios, 'Where the SMBIOS tables come from.'),
  bios: child(bios, 'Settings of the firmware.'),
})
