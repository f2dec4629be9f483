import { expect, test } from 'vitest'
import { fakeClock } from '../../test/fake-clock.ts'
import { SessionRefusal } from './session-client.ts'
import { createSessionPlaces } from './session-places.ts'

const target = { kind: 'vnc' } as const
const jane = { username: 'jane', groups: [] }
const account = (name: string) => ({ username: `system:serviceaccount:team:${name}`, groups: [] })
const inNamespace = (namespace: string, name = 'web') => ({ namespace, name, target })

/** The status of the refusal, or nothing. */
function refusal(act: () => unknown): SessionRefusal['status'] | undefined {
  try {
    act()
    return undefined
  } catch (error) {
    if (error instanceof SessionRefusal) return error.status
    throw error
  }
}

const untilRefused = (act: () => unknown): number => {
  let count = 0
  while (refusal(act) === undefined) count++
  return count
}

test('a user can open 64 sessions at once, and then 8 per second', async () => {
  const clock = fakeClock()
  const places = createSessionPlaces(clock)
  const attempt = () => places.attempt(jane)
  expect(untilRefused(attempt)).toBe(64)
  expect(refusal(attempt)).toEqual({
    code: 429,
    reason: 'TooManyRequests',
    message: 'the user opens too many sessions (8 per second after the first 64); try again in 1 s',
    retryAfterSeconds: 1,
  })
  await clock.advance(1000)
  expect(untilRefused(attempt)).toBe(8)
})

test('the service accounts of a namespace count as one user', () => {
  const places = createSessionPlaces(fakeClock())
  untilRefused(() => places.attempt(account('one')))
  expect(refusal(() => places.attempt(account('two')))?.message).toContain('the user opens too many')
  expect(refusal(() => places.attempt(jane))).toBeUndefined()
})

test('the users of a namespace share its rate, but not that of others', () => {
  const places = createSessionPlaces(fakeClock())
  const open = (namespace: string, user: string) =>
    places.take({ username: user, groups: [] }, inNamespace(namespace)).leave()
  let number = 0
  expect(untilRefused(() => open('team', `user-${number++}`))).toBe(128)
  expect(refusal(() => open('team', 'jane'))?.message).toContain('the namespace opens too many')
  expect(refusal(() => open('other', 'jane'))).toBeUndefined()
})

test('a user leaves some places of a namespace to the others', () => {
  const places = createSessionPlaces(fakeClock())
  let number = 0
  const take = (user: string) => () =>
    places.take({ username: user, groups: [] }, inNamespace('team', `vm-${number++}`))
  expect([untilRefused(take('jane')), untilRefused(take('jo'))]).toEqual([48, 16])
})

test('namespaces together exclude no other one', () => {
  const places = createSessionPlaces(fakeClock())
  const take = (namespace: string, number: number) =>
    places.take({ username: `${namespace}-${number % 2}`, groups: [] }, inNamespace(namespace, `vm-${number}`))
  const held = ['a', 'b', 'c', 'd'].flatMap((namespace) =>
    Array.from({ length: 64 }, (_, number) => take(namespace, number)),
  )
  const honest = Array.from({ length: 51 }, (_, number) => take('honest', number))
  const displaced = (of: typeof held) => of.filter((place) => place.displaced.aborted).length
  expect([displaced(held), displaced(honest)]).toEqual([51, 0])
  // The first four have 205, one of them 52: a namespace with as many takes no place from it.
  expect(refusal(() => take('honest', 51))?.message).toContain('this replica of the webhooks has too many sessions')
  for (const place of [...held, ...honest]) place.leave()
  expect(refusal(() => take('honest', 52))).toBeUndefined()
})
