import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { smallVm, volumeDisk } from './vm.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

/** Accepts connections, and answers nothing. */
async function startSilentServer() {
  const server = createServer((socket) => socket.on('error', () => {}).resume())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(async () => server.close())
  return { server, port: (server.address() as AddressInfo).port }
}

const vmWithDiskAt = (port: number) => {
  const source = { protocol: 'nbd', name: 'disk', host: { name: '127.0.0.1', port } }
  return smallVm({ devices: { disks: [{ ...volumeDisk('root', 'vda'), type: 'network', source }] } })
}

/** A launcher whose QEMU waits for the server. */
async function startConnecting(): Promise<RunningLauncher> {
  const { server, port } = await startSilentServer()
  const launcher = await startLauncher()
  closing.push(() => launcher.stop())
  const connected = once(server, 'connection')
  expect(await launcher.ask('PUT', '/vm', vmWithDiskAt(port))).toMatchObject({ status: 202 })
  await connected
  return launcher
}

test('a VM whose NBD server is silent is reported as starting, and ends when its grace period is over', async () => {
  const launcher = await startConnecting()
  expect(await launcher.report()).toMatchObject({ phase: 'Defined', reason: 'starting' })
  const slow = await launcher.reported('it starts slowly', ({ message }) => message !== undefined)
  expect(slow).toMatchObject({
    phase: 'Defined',
    reason: 'starting',
    message: 'QEMU is still starting; if the VM has network disks, their servers may not respond',
  })
  expect(await launcher.ask('POST', '/shutdown', { gracePeriodSeconds: 2 })).toMatchObject({ status: 202 })
  expect(await launcher.reported('it ended', ({ exit }) => exit !== undefined)).toMatchObject({
    phase: 'Shutoff',
    reason: 'destroyed',
    message: 'the guest did not power off within its grace period of 2 s, and was ended',
    exit: 'Failed',
  })
  await launcher.ask('POST', '/final')
  expect(await launcher.exitCode).toBe(1)
})
