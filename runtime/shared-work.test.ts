import { expect, test } from 'vitest'
import { settle } from '../test/fake-clock.ts'
import { createSharedWork } from './shared-work.ts'

/** Work that ends when the test says so, and that records when it begins and when it is aborted. */
function setUp() {
  const shared = createSharedWork<string>()
  const log: string[] = []
  const results: PromiseWithResolvers<string>[] = []
  return {
    log,
    results,
    run: (key: string, signal?: AbortSignal) =>
      shared
        .run(
          key,
          (aborted) => {
            const result = Promise.withResolvers<string>()
            results.push(result)
            log.push(`${key} begins`)
            aborted.addEventListener('abort', () => log.push(`${key} is aborted`))
            return result.promise
          },
          signal,
        )
        .catch(String),
  }
}

test('callers with the same key share the work, until it has ended', async () => {
  const { log, results, run } = setUp()
  const both = [run('a'), run('a'), run('b')]
  expect(log).toEqual(['a begins', 'b begins'])
  results[0]?.resolve('yes')
  results[1]?.reject(new Error('away'))
  expect(await Promise.all(both)).toEqual(['yes', 'yes', 'Error: away'])
  void run('a')
  expect(log.filter((line) => line === 'a begins')).toHaveLength(2)
})

test('a caller that leaves does not end the work of the others; the last one does', async () => {
  const { log, run } = setUp()
  const [one, other] = [new AbortController(), new AbortController()]
  const left = [run('a', one.signal), run('a', other.signal)]
  one.abort(new Error('gone'))
  expect(await left[0]).toBe('Error: gone')
  expect(log).toEqual(['a begins'])
  other.abort(new Error('gone too'))
  expect(await left[1]).toBe('Error: gone too')
  expect(log).toEqual(['a begins', 'a is aborted'])
})

test('work that was aborted is not joined', async () => {
  const { log, results, run } = setUp()
  const client = new AbortController()
  const left = run('a', client.signal)
  client.abort(new Error('gone'))
  await left
  const next = run('a')
  results[0]?.reject(new Error('aborted'))
  await settle()
  results[1]?.resolve('yes')
  expect([await next, log]).toEqual(['yes', ['a begins', 'a is aborted', 'a begins']])
})

test('a caller whose signal has aborted begins nothing', async () => {
  const { log, run } = setUp()
  expect([await run('a', AbortSignal.abort(new Error('gone'))), log]).toEqual(['Error: gone', []])
})
