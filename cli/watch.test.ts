import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { files, preset, vm } from '../test/cli/files.ts'
import { say } from '../test/cli/world.ts'
import { until } from '../test/until.ts'
import { watchChanges } from './watch.ts'

/** `complete --watch` on real files, which goes on until `end`. */
function watching(...words: string[]) {
  let [out, err] = ['', '']
  const enough = new AbortController()
  const ended = new Promise<undefined>((resolve) => enough.signal.addEventListener('abort', () => resolve(undefined)))
  const done = say(['complete', ...words, '--watch', '-o', 'json'], {
    out: (text) => (out += text),
    err: (text) => (err += text),
    changes: async (paths) =>
      (async function* () {
        const changes = watchChanges(paths)[Symbol.asyncIterator]()
        for (;;) {
          const next = await Promise.race([changes.next(), ended])
          if (next === undefined || next.done === true) return
          yield next.value
        }
      })(),
  })
  const says = (text: string) =>
    until(() => out.includes(text) || err.includes(text), undefined, { deadlineMs, describe: () => out + err })
  return {
    says,
    end: async () => {
      enough.abort()
      return (await done).code
    },
  }
}

const titled = (title: string) => vm('web', `    title: ${title}\n`)

/** Of a machine that has much else to do. */
const deadlineMs = 30_000

describe('watch', { timeout: 2 * deadlineMs }, () => {
  test('completes again what is written, replaced, removed and made again', async () => {
    const at = files({ 'vm.yaml': titled('one') })
    const { says, end } = watching(at('vm.yaml'), '--no-validate')
    await says('"title": "one"')
    writeFileSync(at('vm.yaml'), titled('two'))
    await says('"title": "two"')
    await says(`${at('vm.yaml')} has changed`)
    // As many editors save.
    writeFileSync(at('.vm.yaml.new'), titled('three'))
    renameSync(at('.vm.yaml.new'), at('vm.yaml'))
    await says('"title": "three"')
    rmSync(at('vm.yaml'))
    await says('vm.yaml: no such file')
    writeFileSync(at('vm.yaml'), 'kind: [')
    await says('vm.yaml:1:')
    writeFileSync(at('vm.yaml'), titled('four'))
    await says('"title": "four"')
    expect(await end()).toBe(0)
  })

  test('what changes while a completion is under way is not lost', async () => {
    const at = files({ 'vm.yaml': titled('t0') })
    const { says, end } = watching(at('vm.yaml'), '--no-validate')
    for (let count = 1; count <= 20; count++) {
      writeFileSync(at('vm.yaml'), titled(`t${count}`))
      await new Promise(setImmediate)
    }
    await says('"title": "t20"')
    expect(await end()).toBe(0)
  })

  test('a folder of presets, and new folders in it', async () => {
    const title = (text: string) => preset(text, `{selector: {}, priority: ${text.length}, domain: {title: ${text}}}`)
    const at = files({ 'vm.yaml': vm('web'), 'presets/a.yaml': title('a') })
    const { says, end } = watching(at('vm.yaml'), '--presets', at('presets'))
    await says('"title": "a"')
    writeFileSync(at('presets/b.yaml'), title('bb'))
    await says('"title": "bb"')
    mkdirSync(at('presets/more'))
    writeFileSync(at('presets/more/c.yaml'), title('ccc'))
    await says('"title": "ccc"')
    rmSync(at('presets/more/c.yaml'))
    await says('more/c.yaml has changed')
    expect(await end()).toBe(0)
  })

  test('standard input does not change', async () => {
    const changes: string[] = []
    for await (const change of watchChanges(['-', '/nowhere/x.yaml'])) changes.push(change)
    expect(changes).toEqual([])
  })
})
