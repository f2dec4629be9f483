import { duplexPair } from 'node:stream'
import { expect, test } from 'vitest'
import { encodeError, fakeLibvirtd } from '../../test/fake-libvirtd.ts'
import { fakeClock, settle } from '../../test/fake-clock.ts'
import { libvirtContract } from '../../test/libvirt-contract.ts'
import { Client } from './client.ts'
import { LibvirtError } from './errors.ts'
import { encodePacket, packetReader, packetStatus, packetType } from './packet.ts'
import { encodeFields, procedure } from './protocol.ts'

libvirtContract(async () => {
  const fake = fakeLibvirtd()
  return {
    dial: () => fake.dial(),
    domainXml: async (name, guest) => `<domain><name>${name}</name><disk>${guest}</disk></domain>`,
    restartDaemon: async () => fake.restart(1),
    killGuests: async () => fake.killGuests(),
    stop: async () => fake.restart(Infinity),
  }
})

test('the connection of a console is closed that fails in the same chunk as it is opened', async () => {
  const [client, daemon] = duplexPair()
  const read = packetReader()
  daemon.on('data', (chunk: Buffer) => {
    for (const call of read(chunk)) {
      const isAuthentication = call.procedure === procedure('auth_list').number
      const payload = isAuthentication ? encodeFields(procedure('auth_list').ret, { types: [0] }) : new Uint8Array()
      const reply = encodePacket({ ...call, type: packetType.reply, status: packetStatus.ok, payload })
      const isConsole = call.procedure === procedure('domain_open_console').number
      const failed = { ...call, type: packetType.stream, status: packetStatus.error }
      const error = new LibvirtError('stream had unexpected termination', 38, 7)
      const failure = isConsole ? encodePacket({ ...failed, payload: encodeError(error) }) : Buffer.alloc(0)
      daemon.write(Buffer.concat([reply, failure]))
    }
  })
  const options = { uri: 'qemu:///session', clock: fakeClock(), onHint: () => {} }
  const dom = { name: 'vm', uuid: Buffer.alloc(16), id: 1 }
  const args = { dom, dev_name: null, flags: 0 }
  const stream = await new Client({ ...options, dial: async () => client }).stream('domain_open_console', args)
  expect(stream.destroyed).toBe(true)
  await settle()
  expect(client.destroyed).toBe(true)
})
