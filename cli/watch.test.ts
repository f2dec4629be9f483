import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { files, preset, vm } from '../test/cli/files.ts'
import { runVm } from '../test/cli/world.ts'
import { until } from '../test/until.ts'
import { watchChanges } from './watch.ts'

/** `complete --watch` on real files, until `end`. */
function watching(...words: string[]) {
  let [out, err] = ['', '']
  const enough = new AbortController()
  const ended = new Promise<undefined>((resolve) => enough.signal.addEventListener('abort', () => resolve(undefined)))
  const done = runVm(['complete', ...words, '--watch', '-o', 'json'], {
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
  const prints = (text: string) =>
    until(() => out.includes(text) || err.includes(text), undefined, { describe: () => out + err })
  return {
    prints,
    end: async () => {
      enough.abort()
      return (await done).code
    },
  }
}

const titled = (title: string) => vm('web', `    title: ${title}\n`)

describe('watch', () => {
  test('completes a file again that is written, replaced, removed and created again', async () => {
    const at = files({ 'vm.yaml': titled('one') })
    const { prints, end } = watching(at('vm.yaml'), '--no-validate')
    await prints('"title": "one"')
    writeFileSync(at('vm.yaml'), titled('two'))
    await prints('"title": "two"')
    await prints(`${at('vm.yaml')} has changed`)
    // As many editors save.
    writeFileSync(at('.vm.yaml.new'), titled('three'))
    renameSync(at('.vm.yaml.new'), at('vm.yaml'))
    await prints('"title": "three"')
    rmSync(at('vm.yaml'))
    await prints('vm.yaml: no such file')
    writeFileSync(at('vm.yaml'), 'kind: [')
    await prints('vm.yaml:1:')
    writeFileSync(at('vm.yaml'), titled('four'))
    await prints('"title": "four"')
    expect(await end()).toBe(0)
  })

  test('a change during a completion is not lost', async () => {
    const at = files({ 'vm.yaml': titled('t0') })
    const { prints, end } = watching(at('vm.yaml'), '--no-validate')
    for (let count = 1; count <= 20; count++) {
      writeFileSync(at('vm.yaml'), titled(`t${count}`))
      await new Promise(setImmediate)
    }
    await prints('"title": "t20"')
    expect(await end()).toBe(0)
  })

  test('a directory of presets, and new directories in it', async () => {
    const title = (text: string) => preset(text, `{selector: {}, priority: ${text.length}, domain: {title: ${text}}}`)
    const at = files({ 'vm.yaml': vm('web'), 'presets/a.yaml': title('a') })
    const { prints, end } = watching(at('vm.yaml'), '--presets', at('presets'))
    await prints('"title": "a"')
    writeFileSync(at('presets/b.yaml'), title('bb'))
    await prints('"title": "bb"')
    mkdirSync(at('presets/more'))
    writeFileSync(at('presets/more/c.yaml'), title('ccc'))
    await prints('"title": "ccc"')
    rmSync(at('presets/more/c.yaml'))
    await prints('more/c.yaml has changed')
    expect(await end()).toBe(0)
  })

  test('standard input does not change', async () => {
    const changes: string[] = []
    for await (const change of watchChanges(['-', '/nowhere/x.yaml'])) changes.push(change)
    expect(changes).toEqual([])
  })
})
