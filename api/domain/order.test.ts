import { describe, expect, test } from 'vitest'
import { diskIndex, orders } from './order.ts'

describe("libvirt's order of disks", () => {
  const order = (...targets: string[]): string =>
    (
      orders['devices.disks']?.(
        targets.map((target) => {
          const [dev, bus] = target.split(':')
          return { target: bus === undefined ? { dev } : { dev, bus } }
        }),
      ) ?? []
    )
      .map((disk) => JSON.stringify(disk).replaceAll(/.*"dev":"(\w+)".*/g, '$1'))
      .join(' ')

  test.each([
    ['by target within a bus', ['vdb', 'vda'], 'vda vdb'],
    ['buses are in the order of their first disks', ['hdc:ide', 'vdb:virtio', 'hda:ide'], 'hda hdc vdb'],
    ['disks without a stated bus form one group', ['hdb', 'vda:virtio', 'vdc', 'hda'], 'hda hdb vdc vda'],
    ['disks with the same letter keep their order', ['vda', 'fda', 'sdb:scsi', 'hda'], 'vda fda hda sdb'],
    ['vdz is before vdaa', ['vdaa', 'vdz'], 'vdz vdaa'],
    ['a stated bus decides, not the name', ['sdb:usb', 'sda:sata', 'sda:usb'], 'sda sdb sda'],
    ['a disk without an index precedes those with one', ['vda', 'vdX'], 'vdX vda'],
    ['equals keep their order', ['vda', 'vdb', 'vda'], 'vda vda vdb'],
  ])('%s', (_, targets, expected) => expect(order(...targets)).toBe(expected))

  test.each([
    ['vda', 0],
    ['vdz', 25],
    ['vdaa', 26],
    ['xvdb', 1],
    ['sda1', 0],
    ['fdb', 1],
    ['nvme0', -1],
    ['vd', -1],
    ['', -1],
  ])('the index of %s is %d', (target, index) => expect(diskIndex(target)).toBe(index))
})

describe("libvirt's order of controllers", () => {
  const order = (...controllers: string[]): string =>
    (
      orders['devices.controllers']?.(
        controllers.map((text) => {
          const [type, index, master] = text.split(':')
          return {
            type,
            ...(index === undefined ? {} : { index: Number(index) }),
            ...(master === undefined ? {} : { master: { startport: Number(master) } }),
          }
        }),
      ) ?? []
    )
      .map((controller) => JSON.stringify(Object.values(controller ?? {})).replaceAll(/"startport":|[["\]{}]/g, ''))
      .join(' ')

  test.each([
    ['by index within a type', ['pci:2', 'usb:0', 'pci:1', 'pci:0'], 'pci,0 pci,1 pci,2 usb,0'],
    ['without an index behind the last of the type', ['scsi:3', 'usb:0', 'scsi'], 'scsi,3 scsi usb,0'],
    ['a USB 2 controller before its companions', ['usb:0:0', 'usb:0:2', 'usb:0'], 'usb,0 usb,0,0 usb,0,2'],
  ])('%s', (_, controllers, expected) => expect(order(...controllers)).toBe(expected))
})
