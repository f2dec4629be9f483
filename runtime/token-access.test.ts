import { expect, test } from 'vitest'
import { fakeClock, settle } from '../test/fake-clock.ts'
import { createTokenAccess } from './token-access.ts'

/** Reviews of tokens whose name begins with `slow` wait for `end`; `good` is allowed; `down` fails. */
function setUp() {
  const clock = fakeClock()
  const asked: string[] = []
  const ends: (() => void)[] = []
  const access = createTokenAccess(async (token): Promise<'allowed' | 'forbidden'> => {
    asked.push(token)
    if (token.startsWith('slow')) await new Promise<void>((resolve) => ends.push(resolve))
    if (token === 'down') throw new Error('no API server')
    return token.startsWith('good') ? 'allowed' : 'forbidden'
  }, clock)
  return { clock, asked, ends, access }
}

test('every result is cached for a minute, and errors are not', async () => {
  const { clock, asked, access } = setUp()
  // The cache takes 0 for unset.
  await clock.advance(1)
  for (const token of ['good', 'bad', 'good', 'bad']) await access(token, 'a')
  expect(asked).toEqual(['good', 'bad'])
  await clock.advance(60_001)
  await access('good', 'a')
  for (const _ of [1, 2]) await expect(access('down', 'a')).rejects.toThrow('no API server')
  expect(asked).toEqual(['good', 'bad', 'good', 'down', 'down'])
})

test('one token is reviewed once at a time', async () => {
  const { asked, ends, access } = setUp()
  const results = Promise.all([access('slow', 'a'), access('slow', 'b')])
  await settle()
  ends[0]?.()
  expect([await results, asked]).toEqual([['forbidden', 'forbidden'], ['slow']])
})

test('addresses with invented tokens do not make it busy for others', async () => {
  const { asked, ends, access } = setUp()
  const invented = ['a', 'b', 'c'].flatMap((address) =>
    Array.from({ length: 10 }, (_, index) => access(`slow-${address}${index}`, address)),
  )
  await settle()
  expect(asked).toEqual(['slow-a0', 'slow-a1', 'slow-b0', 'slow-b1'])
  const good = access('good', 'webhooks')
  // The addresses take turns, so it waits for one review of each.
  for (const end of ends.splice(0)) end()
  await settle()
  expect(asked).toContain('good')
  expect(await good).toBe('allowed')
  for (let round = 0; round < invented.length; round++) {
    for (const end of ends.splice(0)) end()
    await settle()
  }
  expect(new Set(await Promise.all(invented))).toEqual(new Set(['forbidden']))
})

test('invented tokens displace no real one from the cache', async () => {
  const { clock, asked, access } = setUp()
  await clock.advance(1)
  await access('good', 'webhooks')
  for (let address = 0; address < 150; address++) await access(`bad-${address}`, `address-${address}`)
  await access('good', 'webhooks')
  expect(asked.filter((token) => token === 'good')).toEqual(['good'])
})

test('an address that exceeds its rate is busy, and others are not', async () => {
  const { clock, access } = setUp()
  const results: string[] = []
  for (let index = 0; index < 18; index++) results.push(await access(`bad-${index}`, 'a'))
  expect(results.map((result) => result === 'busy')).toEqual(Array.from({ length: 18 }, (_, index) => index >= 16))
  expect(await access('good', 'b')).toBe('allowed')
  await clock.advance(500)
  expect(await access('bad-17', 'a')).toBe('forbidden')
})

test('a token whose review does not begin in time is busy', async () => {
  const { clock, access, ends } = setUp()
  const held = ['a', 'b'].flatMap((address) => [
    access(`slow-${address}0`, address),
    access(`slow-${address}1`, address),
  ])
  const waiting = access('good', 'c')
  await clock.advance(5000)
  expect(await waiting).toBe('busy')
  for (const end of ends) end()
  expect(await Promise.all(held)).toEqual(['forbidden', 'forbidden', 'forbidden', 'forbidden'])
  expect(await access('good', 'c')).toBe('allowed')
})
