import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { libvirtContract } from '../libvirt-contract.ts'
import { guestDisk, guestXml } from './guest.ts'
import { startLibvirtd } from './libvirtd.ts'

libvirtContract(async () => {
  const libvirtd = await startLibvirtd()
  return {
    dial: () => dial(libvirtd.socket),
    domainXml: async (name, guest) => {
      const disk = await libvirtd.writeFile(`${name}.img`, guestDisk(guest))
      return guestXml({ name, disk, devices: "<serial type='pty'/>" })
    },
    restartDaemon: () => libvirtd.killDaemon(),
    killGuests: () => libvirtd.killGuests(),
    stop: () => libvirtd.stop(),
  }
})

function dial(path: string): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    socket.once('connect', () => resolve(socket))
    socket.once('error', reject)
  })
}
