import { once } from 'node:events'
import { createServer, request, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { textOf } from './untrusted-response.ts'

/** A response of these chunks, or one that breaks off after them. */
async function responseOf(chunks: readonly string[], isWhole = true): Promise<IncomingMessage> {
  const server = createServer((_, response) => {
    for (const chunk of chunks) response.write(chunk)
    if (isWhole) response.end()
    else response.write('', () => response.destroy())
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const sent = request({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' }).end()
  const [response] = await once(sent, 'response')
  return response
}

test.each<[string, string[], string | undefined]>([
  ['no chunk', [], ''],
  ['as many bytes as are allowed', ['x'.repeat(4096)], 'x'.repeat(4096)],
  ['one byte more', ['x'.repeat(4097)], undefined],
  ['four small chunks', ['a', 'b', 'c', 'd'], 'abcd'],
  ['five small chunks', ['a', 'b', 'c', 'd', 'e'], undefined],
])('of a response of %s, 4 KiB are read, and 1 KiB counts for the smallest chunk', async (_, chunks, expected) => {
  expect(await textOf(await responseOf(chunks), 4096)).toBe(expected)
})

test('a response that breaks off is an error', async () => {
  await expect(textOf(await responseOf(['a'], false), 4096)).rejects.toThrow('aborted')
})
