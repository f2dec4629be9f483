import { expect, test } from 'vitest'
import type { Connection } from './connection.ts'
import { LibvirtError } from './errors.ts'
import { readMounts } from './guest-info.ts'
import { errorCodes } from './protocol.ts'

const dom = { name: 'one', uuid: Buffer.alloc(16), id: 1 }
const refusing = (code: number): Pick<Connection, 'call'> => ({
  async call(procedure) {
    if (procedure === 'domain_get_guest_info') throw new LibvirtError('guest-get-fsinfo is disabled', code, 10)
    return {} as never
  },
})

test.each([
  ['an agent that refuses does not report that nothing is mounted', 1, 'guest-get-fsinfo is disabled'],
  ['nor does one that does not answer', errorCodes.agentUnresponsive, 'did not answer the question'],
])('%s', async (_, code, expected) => {
  await expect(readMounts(refusing(code), dom, 'sda')).rejects.toThrow(expected)
})
