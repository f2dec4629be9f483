import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ensureOlderNode } from './older-node.ts'

const cache = mkdtempSync(join(tmpdir(), 'virtset-older-node-'))
afterAll(() => rmSync(cache, { recursive: true }))

test('Node 22 is installed once', async () => {
  const program = join(cache, 'node-22/node_modules/node/bin/node')
  const done: string[] = []
  const step = {
    log: '',
    show: (note: string) => void done.push(note),
    async run(command: readonly string[]) {
      done.push(command.join(' '))
      mkdirSync(dirname(program), { recursive: true })
      writeFileSync(program, '')
      return ''
    },
  }
  expect([await ensureOlderNode(step, { cache }), await ensureOlderNode(step, { cache })]).toEqual([program, program])
  expect(done).toEqual([`npm install --prefix ${cache}/node-22 --no-audit --no-fund node@22`, 'from the cache'])
})
