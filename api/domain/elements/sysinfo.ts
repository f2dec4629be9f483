import { attribute, child, children, content, element, leaves } from '../description.ts'
import { oneOf, path } from '../scalar.ts'
import { firmwareName, firmwareValue, line } from '../text.ts'

const block = <const N extends readonly string[]>(description: string, ...names: N) =>
  element(description, {
    entries: children(
      'entry',
      element('One value.', {
        name: attribute(oneOf(...names), 'Its name.'),
        value: content(line(65_536), 'Its text.'),
      }),
      'The values.',
      { key: [['name']] },
    ),
  })

const bios = block('The BIOS.', 'vendor', 'version', 'date', 'release')
const system = block('The machine.', 'manufacturer', 'product', 'version', 'serial', 'uuid', 'sku', 'family')
const baseBoard = block('A board.', 'manufacturer', 'product', 'version', 'serial', 'asset', 'location')
const chassis = block('The chassis.', 'manufacturer', 'version', 'serial', 'asset', 'sku')
const oemStrings = element('Free text of the manufacturer.', {
  entries: leaves('entry', line(65_536), 'Each string.'),
})

const entry = element('A file of the fw_cfg device.', {
  name: attribute(firmwareName, 'Its name, e.g. `opt/com.example/name`.'),
  file: attribute(path, 'A file with its content.', { reach: 'host' }),
  value: content(firmwareValue, 'Its content.'),
})

export const sysinfo = element(
  'What the guest reads about its own hardware.',
  {
    type: attribute(oneOf('smbios', 'fwcfg'), 'SMBIOS tables, or files of the fw_cfg device.'),
    bios: child(bios, 'The BIOS.'),
    system: child(system, 'The machine.'),
    baseBoards: children('baseBoard', baseBoard, 'The boards.'),
    chassis: child(chassis, 'The chassis.'),
    oemStrings: child(oemStrings, 'Free text of the manufacturer.'),
    entries: children('entry', entry, 'The files of the fw_cfg device.', { key: [['name']] }),
  },
  {
    union: {
      by: 'type',
      owns: ['bios', 'system', 'baseBoards', 'chassis', 'oemStrings', 'entries'],
      branches: { smbios: ['bios', 'system', 'baseBoards', 'chassis', 'oemStrings'], fwcfg: ['entries'] },
    },
  },
)
