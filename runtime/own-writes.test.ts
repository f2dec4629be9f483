import { describe, expect, it } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createOwnWrites } from './own-writes.ts'

const object = (resourceVersion: string, uid = 'u') => ({
  metadata: { namespace: 'n', name: 'a', uid, resourceVersion },
})

describe('own writes', () => {
  it('are newer than a cache that has not seen them, and forgotten when it has', () => {
    const writes = createOwnWrites()
    writes.note(object('10'))
    expect(writes.newest(object('9'))).toEqual(object('10'))
    expect(writes.newest(object('10'))).toEqual(object('10'))
    expect(writes.size).toBe(0)
    expect(writes.newest(object('9'))).toEqual(object('9'))
  })

  it('that the watch never delivers, since etcd was restored from a backup, are forgotten after half a minute', async () => {
    const clock = fakeClock()
    const writes = createOwnWrites(clock)
    writes.note(object('10'))
    await clock.advance(29_999)
    expect(writes.newest(object('9'))).toEqual(object('10'))
    await clock.advance(1)
    expect(writes.newest(object('9'))).toEqual(object('9'))
    expect(writes.size).toBe(0)
  })

  it('of another object of the same name are ignored', () => {
    const writes = createOwnWrites()
    writes.note(object('10'))
    expect(writes.newest(object('9', 'other'))).toEqual(object('9', 'other'))
    expect(writes.size).toBe(0)
  })

  it('of objects that vanish are forgotten after half a minute, at the next write', async () => {
    const clock = fakeClock()
    const writes = createOwnWrites(clock)
    const note = (name: string) => writes.note({ metadata: { ...object('10').metadata, name } })
    for (const name of ['a', 'b']) note(name)
    await clock.advance(20_000)
    note('a')
    await clock.advance(10_000)
    note('c')
    expect(writes.size).toBe(2)
  })

  it('can be forgotten', () => {
    const writes = createOwnWrites()
    writes.note(object('10'))
    writes.forget({ namespace: 'n', name: 'a' })
    expect(writes.size).toBe(0)
  })
})
