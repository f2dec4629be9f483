import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { refusal, sessionCluster } from '../test/cli/sessions.ts'
import { runVm } from '../test/cli/world.ts'

const picture = Buffer.from('89504e470d0a1a0a0000000049454e44ae426082', 'hex')

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'screenshot-'))
})
afterEach(() => rm(directory, { recursive: true }))

async function take(
  given: Parameters<typeof sessionCluster>[0],
  output = join(directory, 'web.png'),
  isOutTerminal = false,
) {
  const written: Uint8Array[] = []
  const result = await runVm(['screenshot', 'web', '-o', output], {
    cluster: async () => sessionCluster(given).cluster,
    isOutTerminal,
    terminal: async () => ({
      isInteractive: false,
      setRaw: () => {},
      read: () => () => {},
      write: (chunk) => void written.push(chunk),
    }),
  })
  return { ...result, written }
}

test('a picture is written to a file', async () => {
  const output = join(directory, 'web.png')
  expect(await take({ picture }, output)).toMatchObject({ code: 0, err: `Wrote ${output}\n` })
  expect(await readFile(output)).toEqual(picture)
})

test('a picture is written to standard output', async () => {
  expect(await take({ picture }, '-')).toMatchObject({ code: 0, err: '', written: [picture] })
})

test('a picture is not written to a terminal', async () => {
  const { code, err, written } = await take({ picture }, '-', true)
  expect([code, written]).toEqual([2, []])
  expect(err).toMatch(/^error: standard output is a terminal: /)
})

test.each<[string, Parameters<typeof sessionCluster>[0], number, string]>([
  ['that was cut', { picture: picture.subarray(0, -1) }, 2, 'error: the screenshot is incomplete; try again\n'],
  ['that is something else', { picture: Buffer.from('P6') }, 2, 'error: the screenshot is incomplete; try again\n'],
  [
    'without permission',
    { refuse: () => refusal(403, 'Forbidden', 'cannot get') },
    1,
    'Error from server (Forbidden): cannot get\n',
  ],
])('a picture %s is not written', async (_, given, code, err) => {
  expect(await take(given)).toMatchObject({ code, err })
  expect(await readdir(directory)).toEqual([])
})
