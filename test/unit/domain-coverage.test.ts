import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { elementOf, type Element } from '../../api/domain/description.ts'
import { domain } from '../../api/domain/domain.ts'
import { shapeOf } from '../../api/domain/shape.ts'

/** Nested element names; `@` lists the attributes. From the schema of libvirt 11.3.0. */
interface Names {
  readonly [name: string]: Names | string
}

const names: Names = JSON.parse(readFileSync(new URL('../data/libvirt-names.json', import.meta.url), 'utf8'))

/** Elements that are not described, with everything below, and the reason. */
const exceptions = new Map([
  ['domain/bhyve:commandline', 'of the bhyve hypervisor'],
  ['domain/lxc:namespace', 'of Linux containers'],
  ['domain/vmware:datacenterpath', 'of VMware ESX'],
  ['domain/xen:commandline', 'of Xen'],
  ['domain/bootloader', 'of Xen and bhyve'],
  ['domain/bootloader_args', 'of Xen and bhyve'],
  ['domain/os/init', 'of Linux containers'],
  ['domain/os/initarg', 'of Linux containers'],
  ['domain/os/initdir', 'of Linux containers'],
  ['domain/os/initenv', 'of Linux containers'],
  ['domain/os/initgroup', 'of Linux containers'],
  ['domain/os/inituser', 'of Linux containers'],
  ['domain/os/root', 'of Linux containers'],
  ['domain/features/capabilities', 'of Linux containers'],
  ['domain/features/privnet', 'of Linux containers'],
  ['domain/features/hap', 'of Xen'],
  ['domain/features/viridian', 'of Xen'],
  ['domain/features/xen', 'of Xen'],
  ['domain/features/aia', 'of RISC-V'],
  ['domain/features/ras', 'of ARM'],
  ['domain/features/ccf-assist', 'of POWER'],
  ['domain/features/cfpc', 'of POWER'],
  ['domain/features/hpt', 'of POWER'],
  ['domain/features/htm', 'of POWER'],
  ['domain/features/ibs', 'of POWER'],
  ['domain/features/nested-hv', 'of POWER'],
  ['domain/features/sbbc', 'of POWER'],
  ['domain/devices/nvram', 'of POWER'],
  ['domain/devices/controller/@maxEventChannels', 'of Xen'],
  ['domain/devices/controller/@maxGrantFrames', 'of Xen'],
  ['domain/devices/disk/backenddomain', 'of Xen'],
  ['domain/devices/interface/backenddomain', 'of Xen'],
  ['domain/devices/interface/guest', 'of Linux containers and OpenVZ'],
  ['domain/devices/filesystem/source/@dev', 'of Linux containers'],
  ['domain/devices/filesystem/source/@units', 'of Linux containers'],
  ['domain/devices/filesystem/source/@usage', 'of Linux containers'],
  ['domain/devices/filesystem/source/@name', 'of OpenVZ'],
  ['domain/devices/filesystem/space_hard_limit', 'of OpenVZ'],
  ['domain/devices/filesystem/space_soft_limit', 'of OpenVZ'],
  ['domain/devices/hostdev/ip', 'of Linux containers'],
  ['domain/devices/hostdev/route', 'of Linux containers'],
  ['domain/devices/hostdev/source/block', 'of Linux containers'],
  ['domain/devices/hostdev/source/char', 'of Linux containers'],
  ['domain/devices/hostdev/source/interface', 'of Linux containers'],
  ['domain/devices/console/target/model', 'of serial ports; the schema has one target for all character devices'],
  ['domain/devices/parallel/target/@type', 'of serial ports; the schema has one target for all character devices'],
  ['domain/devices/parallel/target/model', 'of serial ports; the schema has one target for all character devices'],
  ['domain/devices/smartcard/target', 'of serial ports; the schema has one target for all character devices'],
])

/** Names that are not described anywhere, and the reason. */
const exceptionsAnywhere = new Map([
  ['privateData', "libvirt's notes to itself, in the state files of running VMs only"],
  ['zpci', 'of IBM Z'],
  ['@cssid', 'of IBM Z'],
  ['@ssid', 'of IBM Z'],
  ['@devno', 'of IBM Z'],
  ['@master', 'of bhyve'],
  ['@slave', 'of bhyve'],
])

test('every name in the schema of libvirt is described or is an exception with a reason', () => {
  const missing: string[] = []
  const unusedExceptions = new Set(exceptions.keys())
  const counted = { elements: 0, attributes: 0, excepted: 0 }

  const isExcepted = (path: string): boolean => {
    if (path.split('/').some((name) => exceptionsAnywhere.has(name))) return true
    for (let prefix = path; prefix !== ''; prefix = prefix.slice(0, Math.max(0, prefix.lastIndexOf('/')))) {
      if (!exceptions.has(prefix)) continue
      unusedExceptions.delete(prefix)
      return true
    }
    return false
  }
  const visit = (below: Names, element: Element | undefined, path: string): void => {
    for (const [name, inside] of Object.entries(below)) {
      if (typeof inside === 'string') {
        for (const attribute of inside.split(' ')) {
          counted.attributes += 1
          if (isExcepted(`${path}/@${attribute}`)) counted.excepted += 1
          else if (!element || !shapeOf(element).attributes.has(attribute)) missing.push(`${path}/@${attribute}`)
        }
        continue
      }
      const itemPath = `${path}/${name}`
      const field = element && shapeOf(element).elements.get(name)?.field
      counted.elements += 1
      if (isExcepted(itemPath)) counted.excepted += 1
      else if (!field) missing.push(itemPath)
      // Applications use any names below metadata.
      if (field?.at === 'foreign') counted.elements += 1
      if (field?.at === 'foreign') counted.attributes += 1
      else
        visit(
          inside,
          field && (field.at === 'child' || field.at === 'children') ? elementOf(field) : undefined,
          itemPath,
        )
    }
  }

  const { '@': attributes, ...children } = typeof names['domain'] === 'object' ? names['domain'] : {}
  counted.elements += 1
  visit({ '@': attributes ?? '', ...children }, domain, 'domain')

  expect({ missing, unusedExceptions: [...unusedExceptions] }).toEqual({ missing: [], unusedExceptions: [] })
  expect(counted).toMatchObject({ elements: 1031, attributes: 2289 })
})
