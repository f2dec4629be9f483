import { connect } from 'node:net'
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { Client } from '../../launcher/libvirt/client.ts'
import {
  attachDevice,
  defineDomain,
  detachDevice,
  type DomainRef,
  hasQemuDevice,
  readXml,
  startDomain,
} from '../../launcher/libvirt/domain.ts'
import { systemClock } from '../../runtime/clock.ts'
import { eventually } from '../until.ts'
import { guestDisk, guestXml } from './guest.ts'
import { startLibvirtd } from './libvirtd.ts'

const alias = 'ua-attached-one'

test('QEMU has a device that libvirt has attached, and one of which libvirt does not know', async () => {
  const libvirtd = await startLibvirtd()
  onTestFinished(() => libvirtd.stop())
  const client = new Client({
    dial: async () => {
      const socket = connect(libvirtd.socket)
      await once(socket, 'connect')
      return socket
    },
    uri: 'qemu:///session',
    clock: systemClock,
    onHint: () => {},
  })
  onTestFinished(() => client.close())
  client.start()
  const disk = await libvirtd.writeFile('disk.img', guestDisk('idle'))
  const devices = "<controller type='scsi' model='virtio-scsi'/>"
  const dom = await defineDomain(client, guestXml({ name: 'guest', disk, devices }))
  await startDomain(client, dom)
  const known = async (of: DomainRef) => [
    (await readXml(client, of))?.includes(`<alias name='${alias}'/>`),
    await hasQemuDevice(client, of, alias),
  ]
  expect(await known(dom)).toEqual([false, false])

  const file = await libvirtd.writeFile('attached.img', Buffer.alloc(1024 * 1024))
  const xml = `<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='${file}'/><target dev='sda' bus='scsi'/><alias name='${alias}'/></disk>`
  await attachDevice(client, dom, xml)
  expect(await known(dom)).toEqual([true, true])

  await detachDevice(client, dom, alias)
  // libvirt learns of it from QEMU.
  await eventually('both have released it', async () => !(await known(dom)).includes(true))

  // As a libvirtd that ended while it attached the disk leaves it.
  const add = { driver: 'scsi-cd', id: alias, bus: 'scsi0.0', 'scsi-id': 0, lun: 0 }
  const cmd = JSON.stringify({ execute: 'device_add', arguments: add })
  await client.mutate('qemu_domain_monitor_command', { dom, cmd, flags: 0 })
  expect(await known(dom)).toEqual([false, true])
})
